"""Checks of texts that callers give, beyond what a schema says. Every refusal names the parameter."""

from __future__ import annotations

import unicodedata

from mcpdesk.errors import HandlerError

LAYOUT = "\n\t"


def given(parameter: str, value: str | None, limit: int) -> str:
    """A text without blanks around it.

    Raises: HandlerError when it is missing or empty, has more than `limit` characters, or control characters.
    """
    text = (value or "").strip()
    if not text:
        raise HandlerError(f"{parameter}: is missing; give a text of 1 to {limit} characters")
    if len(text) > limit:
        raise HandlerError(f"{parameter}: has {len(text)} characters; at most {limit} are allowed")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in LAYOUT:
            raise HandlerError(
                f"{parameter}: holds the control character U+{ord(character):04X}; plain text is allowed"
            )
    return text
