"""Text field of several lines, in a separate module because its imports are slow and only forms need it."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, TextAreaTheme

from mcpdesk.plain_text import from_field, to_field, with_placeholders
from mcpdesk.tui.widgets.fields import character_of

_SYNTAX_STYLES = {
    "json.label": "text-field--key",
    "string": "text-field--text",
    "string.escape": "text-field--text",
    "number": "text-field--number",
    "boolean": "text-field--word",
    "json.null": "text-field--word",
    "json.error": "text-field--bad",
    "punctuation.delimiter": "text-field--muted",
    "punctuation.bracket": "text-field--muted",
}
"""Capture name of the grammar -> component class with its colour, the same as in JSON trees."""


class _DeskColours(TextAreaTheme):
    """Colours of the current theme. The default colours of Textual's text areas belong to one dark theme."""

    def apply_css(self, text_area: TextArea) -> None:
        """Read the colours. Textual calls this before it draws."""
        super().apply_css(text_area)
        style_of = text_area.get_component_rich_style
        self.syntax_styles = {
            name: style_of(component, partial=True) for name, component in _SYNTAX_STYLES.items()
        }


class TextField(TextArea):
    """Text field of several lines. `text` is the text as shown, `entered_text` the real text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(_SYNTAX_STYLES.values())
    DEFAULT_CSS = """
    TextField {
        & .text-field--key { color: $text-primary; }
        & .text-field--text { color: $text-success; }
        & .text-field--number { color: $text-warning; }
        & .text-field--word { color: $text-accent; }
        & .text-field--bad { color: $text-error; }
        & .text-field--muted, & .text-area--gutter, & .text-area--cursor-gutter { color: $text-muted; }
        & .text-area--placeholder { color: $text-disabled; }
        & .text-area--matching-bracket { background: $panel; text-style: bold underline; }
    }
    """

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text, keeps_lines=True), **options)
        self.register_theme(_DeskColours("desk"))
        self.theme = "desk"

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Return True if a key is text here, so that the footer shows no other binding for it."""
        return super().check_consume_key(key, character or character_of(key))

    @property
    def entered_text(self) -> str:
        """Entered text, with its control characters."""
        return from_field(self.text)

    def load_text(self, text: str) -> None:
        """Replace the text."""
        super().load_text(to_field(text, keeps_lines=True))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines. While the styles are missing, draw blank lines, because Textual would raise an
        error.
        """
        try:
            self.get_component_styles("text-area--gutter")
        except KeyError:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text. Textual calls this for typed, pasted and inserted text."""
        edit.text = with_placeholders(edit.text, keeps_lines=True)
        return super().edit(edit)
