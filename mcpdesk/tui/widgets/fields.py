"""The text fields of the screen. All text is edited in one of these two.

A field may contain text of strangers: a default, an argument of a client, a suggestion, a paste. It shows
control characters as stand-ins of one cell, so that cursor, width and drawing agree. `true_text` is the text
with its real characters; nothing is lost.
"""

from __future__ import annotations

from typing import Any

from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Edit, EditResult

from mcpdesk.plain_text import from_field, stand_ins, to_field


class LineField(Input):
    """A field of one line. `value` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def validate_value(self, value: str) -> str:
        """Replace control characters by stand-ins; Textual calls this whenever the value is set."""
        return stand_ins(value)

    @property
    def true_text(self) -> str:
        """The text that was entered, with its control characters."""
        return from_field(self.value)

    @true_text.setter
    def true_text(self, text: str) -> None:
        self.value = to_field(text)


class TextField(TextArea):
    """A field of several lines. `text` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text, lines=True), **options)

    @property
    def true_text(self) -> str:
        """The text that was entered, with its control characters."""
        return from_field(self.text)

    def load_text(self, text: str) -> None:
        """Edit another text."""
        super().load_text(to_field(text, lines=True))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines; blank ones while the styles are missing, which Textual treats as an error."""
        try:
            self.get_component_styles("text-area--gutter")
        except KeyError:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; Textual calls this for what is typed, pasted and inserted."""
        edit.text = stand_ins(edit.text, lines=True)
        return super().edit(edit)
