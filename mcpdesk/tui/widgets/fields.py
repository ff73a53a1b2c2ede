"""Where text is edited: the only text fields of the screen.

What stands in a field may be a stranger's: a default, an argument of a client, a suggestion, a paste. A
field holds control characters as stand-ins of one cell, whichever way they got in, so that cursor, width and
drawing agree. `true_text` is the text with its true characters; nothing of it is lost.
"""

from __future__ import annotations

from typing import Any

from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Edit, EditResult

from mcpdesk.plain_text import from_field, stand_ins, to_field


class LineField(Input):
    """One line. `value` is what is shown, `true_text` what it means."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def validate_value(self, value: str) -> str:
        """Hold stand-ins, whichever way the value came in: the toolkit calls this whenever it is set."""
        return stand_ins(value)

    @property
    def true_text(self) -> str:
        """What was entered, with its control characters."""
        return from_field(self.value)

    @true_text.setter
    def true_text(self, text: str) -> None:
        self.value = to_field(text)


class TextField(TextArea):
    """Several lines. `text` is what is shown, `true_text` what it means."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text, lines=True), **options)

    @property
    def true_text(self) -> str:
        """What was entered, with its control characters."""
        return from_field(self.text)

    def load_text(self, text: str) -> None:
        """Edit another text."""
        super().load_text(to_field(text, lines=True))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw; nothing yet while the styles are missing, which Textual takes for an error."""
        try:
            self.get_component_styles("text-area--gutter")
        except KeyError:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; what is typed, pasted and inserted comes through here."""
        edit.text = stand_ins(edit.text, lines=True)
        return super().edit(edit)
