"""A screen on top of others, which goes once."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from mcpdesk.tui.widgets.fields import LineField

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


LONGEST = 40


class NamePrompt(Dialog[str]):
    """Ends with the name; an empty one when the person thought better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]
    DEFAULT_CSS = """
    NamePrompt { align: center top; background: $background 50%; }
    NamePrompt > Vertical {
        width: 60; max-width: 90%; height: auto; margin-top: 4; padding: 0 1; background: $surface;
        border: round $primary; border-title-color: $text-primary; border-title-style: bold;
    }
    NamePrompt Input, NamePrompt Input:focus { border: none; height: 1; padding: 0; background: $surface; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """The line."""
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = "enter keeps · esc closes"
            yield LineField(placeholder="a name", max_length=LONGEST, compact=True)

    @on(Input.Submitted)
    def submit(self, event: Input.Submitted) -> None:
        """Done."""
        event.stop()
        self.dismiss(event.value.strip())

    def action_close(self) -> None:
        """Leave without a name."""
        self.dismiss("")
