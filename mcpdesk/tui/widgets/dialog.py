"""Dialogs: modal screens that close once, and one that asks for a name."""

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
    """A modal screen. Keys that are typed while it opens or closes have no effect on it."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close with a result. Does nothing when the dialog is no longer on top."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    @property
    def has_left(self) -> bool:
        """Whether the dialog was closed: its widgets may be gone, or were never mounted."""
        return self not in self.app.screen_stack

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Run no action before the widgets are mounted: such a key was typed for the screen below."""
        return self.is_mounted

    async def on_event(self, event: events.Event) -> None:
        """Ignore keys after the dialog was closed, and do not start when it was closed before that."""
        if isinstance(event, events.InputEvent):
            is_late = not self.is_active
        else:
            is_late = isinstance(event, (events.Mount, events.Resize)) and self.has_left
        if not is_late:
            await super().on_event(event)


LONGEST = 40


class NamePrompt(Dialog[str]):
    """Asks for a name in one line; the result is empty when the person closes it."""

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
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = "enter keeps · esc closes"
            yield LineField(placeholder="a name", max_length=LONGEST, compact=True)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    def action_close(self) -> None:
        """Close without a name."""
        self.dismiss("")
