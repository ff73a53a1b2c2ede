"""Estimated size of an answer before it is encoded."""

from __future__ import annotations

from typing import Any

from mcpdesk.protocol.jsonrpc import JSONObject

LARGE = 64 << 10
"""An answer of at least this many bytes must be reserved in the budget of unread answers."""
_DEPTH = 6
"""Maximum number of nesting levels examined. Texts of results are at most five deep."""


def estimated_size(result: JSONObject) -> int:
    """Return the number of characters in the texts of a result, which is close to its encoded size in bytes.

    Values other than texts, and texts nested deeper than `_DEPTH`, are not counted. The answer is measured
    exactly when it is encoded.
    """
    content = result.get("content")
    if type(content) is list and len(content) == 1 and "structuredContent" not in result:
        text = content[0].get("text")
        if type(text) is str and len(text) < LARGE:
            return len(text)
    return _characters(result, _DEPTH)


def _characters(value: Any, depth: int) -> int:
    kind = type(value)
    if kind is str:
        return len(value)
    if not depth:
        return 0
    if kind is dict:
        return sum([_characters(each, depth - 1) for each in value.values()])
    if kind is list:
        return sum([_characters(each, depth - 1) for each in value])
    return 0
