"""Asks for a name, in one line."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.fields import LineField

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
