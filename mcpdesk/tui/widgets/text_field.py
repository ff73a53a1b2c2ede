"""The text field of several lines. It imports more than most screens need: only forms do."""

from __future__ import annotations

from typing import Any

from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult

from mcpdesk.plain_text import from_field, stand_ins, to_field


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
