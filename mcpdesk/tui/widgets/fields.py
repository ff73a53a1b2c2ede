"""Text field of one line. All text is edited in a `LineField` or, for several lines, a `TextField`.

A field may contain untrusted text: a default, an argument of a client, a suggestion, a paste. It shows
control characters as substitutes that are one cell wide, so that cursor, width and drawing agree.
`entered_text` is the text with its real characters.
"""

from __future__ import annotations

from typing import Any

from textual.widgets import Input

from mcpdesk.plain_text import from_field, to_field, with_placeholders

_KEY_CHARACTERS = {
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
    """Return the character of a key in `_KEY_CHARACTERS`, or None for other keys."""
    return _KEY_CHARACTERS.get(key)


MAX_SEARCH_LENGTH = 1_000
"""Maximum number of characters of a search or a filter."""


def cut_message(cut_count: int) -> str:
    """Return the message about a search text from which `cut_count` characters were cut."""
    return f"A search has at most {MAX_SEARCH_LENGTH:,} characters: {cut_count:,} were left out."


class LineField(Input):
    """Text field of one line. `value` is the text as shown, `entered_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return True if a key is text here, so that the footer shows no other binding for it."""
        return super().check_consume_key(key, character or character_of(key))

    def validate_value(self, value: str) -> str:
        """Replace control characters by substitutes. Textual calls this whenever the value is set."""
        return with_placeholders(value)

    def replace(self, text: str, start: int, end: int) -> None:
        """Insert a text, cut to the remaining part of `max_length`. Textual would insert nothing."""
        if cut_count := self._excess_length(text, start, end):
            text = text[:-cut_count]
            self.restricted()
        super().replace(text, start, end)

    def _excess_length(self, text: str, start: int, end: int) -> int:
        """Return the number of characters of `text` that exceed `max_length`."""
        if not self.max_length:
            return 0
        return max(0, min(len(text), len(self.value) - abs(end - start) + len(text) - self.max_length))

    @property
    def entered_text(self) -> str:
        """Entered text, with its control characters."""
        return from_field(self.value)

    @entered_text.setter
    def entered_text(self, text: str) -> None:
        self.value = to_field(text)


class SearchField(LineField):
    """Field of limited length for a search or a filter. Cut text is reported."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(text, max_length=MAX_SEARCH_LENGTH, **options)

    def replace(self, text: str, start: int, end: int) -> None:
        """Insert a text, and report the number of characters that were cut."""
        cut_count = self._excess_length(text, start, end)
        super().replace(text, start, end)
        if cut_count:
            self.notify(cut_message(cut_count), severity="warning", markup=False)
