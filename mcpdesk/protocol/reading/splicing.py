"""Replacement of values in an encoded message. All other bytes are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import MsgspecError, Raw
from msgspec.json import Decoder

from mcpdesk.protocol.jsonrpc import Id

Path: TypeAlias = tuple[str, ...]
"""Names of the members that lead from the message to a value."""
_Span: TypeAlias = tuple[int, int, Id]
"""Start and end of a value, and the value that replaces it."""
_members_of = Decoder(dict[str, Raw]).decode
_decode = json.JSONDecoder().raw_decode
_match_blanks = re.compile(r"[ \t\r\n]*").match
_match_blanks_in_bytes = re.compile(rb"[ \t\r\n]*").match
_match_key = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL).match


def with_values(data: bytes, values: Mapping[Path, Id]) -> bytes | None:
    """Return the message with the values at some paths replaced, or None if the message is not a JSON object
    in UTF-8, or does not have exactly one value at each path. Strict JSON is not decoded, but scanned once
    for each level of the paths.
    """
    if not values:
        return data
    try:
        try:
            spans = list(_spans(data, 0, values))
        except (MsgspecError, UnicodeDecodeError):
            return _with_values_in_text(data.decode(), values)
    except (ValueError, RecursionError):
        return None
    pieces, end = list[bytes](), 0
    for start, stop, value in sorted(spans):
        pieces += data[end:start], json.dumps(value, ensure_ascii=False).encode()
        end = stop
    return b"".join([*pieces, data[end:]])


def with_value(data: bytes, path: Path, value: Id) -> bytes | None:
    """Return the message with the value at one path replaced. See `with_values`."""
    return with_values(data, {path: value})


def _spans(data: bytes, offset: int, values: Mapping[Path, Id]) -> Iterator[_Span]:
    """Yield the spans of the values in an object that begins at `offset` in the message.

    Raises: ValueError if a member is missing or occurs twice; MsgspecError for data that is not strict JSON.
    """
    members = _members_of(data)
    missing = {path[0] for path in values}
    member_count = 0
    position = _after_sign_and_blanks(b"{", data, _after_blanks_in_bytes(data, 0))
    while not data.startswith(b"}", position):
        if member_count:
            position = _after_sign_and_blanks(b",", data, position)
        if (key_match := _match_key(data, position)) is None:
            raise ValueError(f"no name at {offset + position}")
        key = json.loads(key_match[0])
        position = _after_sign_and_blanks(b":", data, _after_blanks_in_bytes(data, key_match.end()))
        if key not in members or not data.startswith(value := memoryview(members[key]), position):
            raise ValueError(f"{key!r} occurs twice")
        if key in missing:
            missing.remove(key)
            inner_values = {path[1:]: new for path, new in values.items() if path[0] == key}
            if () in inner_values:
                yield offset + position, offset + position + len(value), inner_values[()]
            else:
                yield from _spans(bytes(value), offset + position, inner_values)
        position = _after_blanks_in_bytes(data, position + len(value))
        member_count += 1
    if missing or member_count != len(members):
        raise ValueError(f"missing {missing}, or a name occurs twice")


def _after_sign_and_blanks(sign: bytes, data: bytes, position: int) -> int:
    if not data.startswith(sign, position):
        raise ValueError(f"no {sign!r} at {position}")
    return _after_blanks_in_bytes(data, position + 1)


def _after_blanks_in_bytes(data: bytes, position: int) -> int:
    blanks = _match_blanks_in_bytes(data, position)
    assert blanks is not None
    return blanks.end()


def _with_values_in_text(text: str, values: Mapping[Path, Id]) -> bytes:
    """Replace values in a message that is almost JSON, for example because it contains `NaN`.

    Raises: ValueError. Slower than `_spans`, because the message is decoded.
    """
    for path, value in values.items():
        start, end = _span(text, _after_blanks_in_text(text, 0), path)
        text = f"{text[:start]}{json.dumps(value, ensure_ascii=False)}{text[end:]}"
    return text.encode()


def _span(text: str, position: int, path: Path) -> tuple[int, int]:
    """Return start and end of the value at a path, in the object at `position`. Raises: ValueError."""
    spans: list[tuple[int, int]] = []
    position = _after_sign_and_blanks_in_text("{", text, position)
    while True:
        key, position = _decode(text, position)
        start = _after_sign_and_blanks_in_text(":", text, _after_blanks_in_text(text, position))
        _, end = _decode(text, start)
        if key == path[0]:
            spans.append(_span(text, start, path[1:]) if len(path) > 1 else (start, end))
        position = _after_blanks_in_text(text, end)
        if text.startswith("}", position):
            break
        position = _after_sign_and_blanks_in_text(",", text, position)
    [span] = spans
    return span


def _after_sign_and_blanks_in_text(sign: str, text: str, position: int) -> int:
    if not text.startswith(sign, position):
        raise ValueError(f"no {sign} at {position}")
    return _after_blanks_in_text(text, position + 1)


def _after_blanks_in_text(text: str, position: int) -> int:
    blanks = _match_blanks(text, position)
    assert blanks is not None
    return blanks.end()
