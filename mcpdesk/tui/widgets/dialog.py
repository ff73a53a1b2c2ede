"""A screen on top of others, which goes once."""

from __future__ import annotations

from typing import TypeVar

from textual import events
from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

Result = TypeVar("Result")


class Dialog(ModalScreen[Result]):
    """What is typed ahead, until it has gone, does not take what is below with it."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with a result. Does nothing once it is not on top any more."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    @property
    def has_left(self) -> bool:
        """Whether it was closed: its widgets may be gone, or may never have been made."""
        return self not in self.app.screen_stack

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Do nothing before the widgets are there: such a key was typed for what is below."""
        return self.is_mounted

    async def on_event(self, event: events.Event) -> None:
        """Hear no key any more once it was closed, and do not begin when it was closed before it began."""
        if isinstance(event, events.InputEvent):
            is_late = not self.is_active
        else:
            is_late = isinstance(event, (events.Mount, events.Resize)) and self.has_left
        if not is_late:
            await super().on_event(event)
