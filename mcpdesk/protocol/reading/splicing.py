"""Replaces one value of an encoded message and keeps all other bytes."""

from __future__ import annotations

import json
import re

from mcpdesk.protocol.jsonrpc import Id

_decode = json.JSONDecoder().raw_decode
_after_blanks = re.compile(r"[ \t\r\n]*").match


def with_value(data: bytes, path: tuple[str, ...], value: Id) -> bytes | None:
    """Return the message with another value at a path of member names.

    None if it is not a JSON object in UTF-8, or does not have exactly one value there. Decodes the message.
    """
    try:
        text = data.decode()
        start, end = _span(text, _skip(text, 0), path)
        return f"{text[:start]}{json.dumps(value, ensure_ascii=False)}{text[end:]}".encode()
    except (ValueError, RecursionError):
        return None


def _span(text: str, place: int, path: tuple[str, ...]) -> tuple[int, int]:
    """Return start and end of the value at a path, in the object at `place`. Raises: ValueError."""
    found: list[tuple[int, int]] = []
    place = _skip(text, _behind("{", text, place))
    while True:
        key, place = _decode(text, place)
        start = _skip(text, _behind(":", text, _skip(text, place)))
        _, end = _decode(text, start)
        if key == path[0]:
            found.append(_span(text, start, path[1:]) if len(path) > 1 else (start, end))
        place = _skip(text, end)
        if text.startswith("}", place):
            break
        place = _skip(text, _behind(",", text, place))
    [span] = found
    return span


def _behind(sign: str, text: str, place: int) -> int:
    if not text.startswith(sign, place):
        raise ValueError(f"no {sign} at {place}")
    return place + 1


def _skip(text: str, place: int) -> int:
    blanks = _after_blanks(text, place)
    assert blanks is not None
    return blanks.end()
