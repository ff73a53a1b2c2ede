"""Text field of one line. All text is edited in a `LineField` or, for several lines, a `TextField`.

A field may contain untrusted text: a default, an argument of a client, a suggestion, a paste. It shows
control characters as substitutes that are one cell wide, so that cursor, width and drawing agree. `true_text`
is the text with its real characters; nothing is lost.
"""

from __future__ import annotations

from typing import Any

from textual.widgets import Input

from mcpdesk.plain_text import from_field, stand_ins, to_field

_CHARACTERS = {
    "slash": "/",
    "backslash": "\\",
    "plus": "+",
    "minus": "-",
    "asterisk": "*",
    "underscore": "_",
    "at": "@",
}
"""Keys whose characters Textual cannot derive from their names."""


def character_of(key: str) -> str | None:
    """Return the character of such a key, or None for other keys."""
    return _CHARACTERS.get(key)


class LineField(Input):
    """Text field of one line. `value` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return True if a key is text here, so that the footer shows no other binding for it."""
        return super().check_consume_key(key, character or character_of(key))

    def validate_value(self, value: str) -> str:
        """Replace control characters by substitutes; Textual calls this whenever the value is set."""
        return stand_ins(value)

    @property
    def true_text(self) -> str:
        """Entered text, with its control characters."""
        return from_field(self.value)

    @true_text.setter
    def true_text(self, text: str) -> None:
        self.value = to_field(text)
