"""A value edited as JSON text, with the place where it stops being JSON."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Label, TextArea

from mcpdesk.plain_text import json_escaped
from mcpdesk.tui.render.json_text import json_problem
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.fields import TextField

MAX_HIGHLIGHTED = 32_000
"""Characters above which highlighting would cost more than a key press may take."""


class JsonEditor(Vertical):
    """A text area and a line that says what is wrong."""

    DEFAULT_CSS = """
    JsonEditor { height: 1fr; }
    JsonEditor > TextArea { height: 1fr; padding: 0; background: transparent; }
    JsonEditor > .problem {
        width: 1fr; height: auto; max-height: 3; color: $text-error; padding: 0 1; display: none;
    }
    JsonEditor > .problem.-shown { display: block; }
    """

    class Changed(Message):
        """The text is another one now."""

    def compose(self) -> ComposeResult:
        """Editor and problem line."""
        yield TextField(
            compact=True, show_line_numbers=True, tab_behavior="indent", highlight_cursor_line=False
        )
        yield Label("", classes="problem", markup=False)

    @property
    def area(self) -> TextField:
        """The text area."""
        return self.query_one(TextField)

    @property
    def text(self) -> str:
        """What is edited, JSON or not."""
        return self.area.true_text

    @property
    def problem(self) -> str:
        """Where the text stops being JSON; empty when it is JSON."""
        return json_problem(self.text) if self.text.strip() else ""

    def load(self, text: str) -> None:
        """Edit a text; control characters are shown as JSON escapes, which mean the same."""
        text = json_escaped(text)
        area = self.area
        area.language = _language(text)
        area.load_text(text)
        self.complain("")

    def value(self) -> Any:
        """What the text says; an empty text is an empty object.

        Raises: ValueError with line and column when it is not JSON.
        """
        if self.problem:
            raise ValueError(self.problem)
        return json.loads(self.text) if self.text.strip() else {}

    def complain(self, message: str) -> None:
        """Show what is wrong; nothing when empty."""
        label = self.query_one(".problem", Label)
        label.update(Content(f"✗ {one_line(message)}"))
        label.set_class(bool(message), "-shown")

    @on(TextArea.Changed)
    def changed(self, event: TextArea.Changed) -> None:
        """Pass it on, and drop highlighting when the text has grown too long."""
        event.stop()
        if event.text_area.language and len(event.text_area.text) > MAX_HIGHLIGHTED:
            event.text_area.language = None
        self.post_message(self.Changed())


def _language(text: str) -> str | None:
    has_grammar = find_spec("tree_sitter") is not None and find_spec("tree_sitter_json") is not None
    return "json" if has_grammar and len(text) <= MAX_HIGHLIGHTED else None
