"""Where an answer is written: one line, or several where a text is wanted."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from mcpdesk.tui.widgets.fields import LineField, TextField

NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line; terminals tell them apart from enter more or less well."""


class Left(Message):
    """The person is done writing, or never wanted to."""


class OwnWords(LineField):
    """One line. Up and esc lead back to the options."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "leave", "Options", show=False),
        Binding("escape", "leave", "Options", show=False),
    ]
    DEFAULT_CSS = """
    OwnWords, OwnWords:focus { border: none; height: 1; padding: 0 1; width: 1fr; background: $panel; }
    """

    def action_leave(self) -> None:
        """Back to the options."""
        self.post_message(Left())


class LongWords(TextField):
    """Several lines. Enter answers, ctrl+j begins a new line, esc leaves the text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave the text", show=False),
        Binding("pageup", "screen.scroll(-1)", "Page up", show=False),
        Binding("pagedown", "screen.scroll(1)", "Page down", show=False),
    ]
    DEFAULT_CSS = """
    LongWords, LongWords:focus {
        border: none; height: auto; min-height: 3; max-height: 8; padding: 0 1; width: 1fr;
        background: $panel;
    }
    """

    class Submitted(Message):
        """Enter was pressed."""

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submitted())
        elif event.key in NEW_LINE:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        else:
            await super()._on_key(event)

    def action_leave(self) -> None:
        """Leave the text."""
        self.post_message(Left())
