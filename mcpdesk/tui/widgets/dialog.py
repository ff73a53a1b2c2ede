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

    async def on_event(self, event: events.Event) -> None:
        """Hear no key any more once it was closed: what it would act on may be half gone."""
        if self.is_active or not isinstance(event, events.InputEvent):
            await super().on_event(event)
