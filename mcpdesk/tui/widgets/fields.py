"""The text field of one line. All text is edited in one, or in a `TextField` of several lines.

A field may contain text of strangers: a default, an argument of a client, a suggestion, a paste. It shows
control characters as stand-ins of one cell, so that cursor, width and drawing agree. `true_text` is the text
with its real characters; nothing is lost.
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
"""Keys whose characters Textual does not find by their names."""


def character_of(key: str) -> str | None:
    """The character of such a key."""
    return _CHARACTERS.get(key)


class LineField(Input):
    """A field of one line. `value` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether a key is text here, so that the footer does not name it for anything else."""
        return super().check_consume_key(key, character or character_of(key))

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
