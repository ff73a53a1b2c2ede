"""The head of a large message of which beginning and end were kept.

What pairing needs stands before the large part of a message or behind it: the beginning is closed where it
was cut, and the members that follow are read from the end, those of the message and of the object in it that
holds the large part.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mcpdesk.recorder.head import MALFORMED, UNREADABLE, Head, loose_head

_READ = 4 << 10
"""Bytes of a beginning that are looked at: what counts comes first."""
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(rb"\s*(?:(%b)|([{}\[\]:,])|([-+.\w]+))" % _STRING, re.DOTALL)
_FLAT = rb'\{(?:%b|[^{}"])*\}' % _STRING
_NESTED = rb'\{(?:%b|[^{}"]|%b)*\}' % (_STRING, rb'\{(?:%b|[^{}"]|%b)*\}' % (_STRING, _FLAT))
_VALUE = rb'(?:%b|[-+.\w]+|%b|\[(?:%b|[^\[\]"])*\])' % (_STRING, _NESTED, _STRING)
_MEMBERS = rb"((?:\s*,\s*%b\s*:\s*%b)*)\s*\}" % (_STRING, _VALUE)
_LAST = re.compile(_MEMBERS + rb"\s*\Z", re.DOTALL)
_LAST_TWO = re.compile(_MEMBERS + _MEMBERS + rb"\s*\Z", re.DOTALL)
_CLOSERS = {b"{": b"}", b"[": b"]"}
_decode = msgspec.json.Decoder().decode


def read_cut(beginning: bytes, end: bytes) -> Head:
    """The head of the message, as far as it can be told. Never raises."""
    closed, inner = _closed(beginning[:_READ])
    try:
        message = _decode(closed)
    except UNREADABLE:
        return MALFORMED
    if not isinstance(message, dict):
        return MALFORMED
    holder = message.get(inner)
    if isinstance(holder, dict):
        if found := _LAST_TWO.search(end):
            holder.update(_members(found[1]))
            message.update(_members(found[2]))
    elif found := _LAST.search(end):
        message.update(_members(found[1]))
    return loose_head(message)


def _closed(beginning: bytes) -> tuple[bytes, str]:
    """A message cut off somewhere, made one that ends there, and the name of its member that was cut."""
    open_parts: list[bytes] = []
    names = [""]
    whole, closers = 0, b""
    place, string, is_name = 0, b"", False
    while (token := _TOKEN.match(beginning, place)) and token.end() < len(beginning):
        place = token.end()
        sign = token[2]
        if sign == b":":
            if len(open_parts) == 1:
                names = [string[1:-1].decode("utf-8", "replace")]
            is_name = False
            continue
        if sign == b",":
            is_name = open_parts[-1:] == [b"{"]
            continue
        if sign in _CLOSERS:
            open_parts.append(sign)
            is_name = sign == b"{"
        elif sign:
            if not open_parts:
                break
            open_parts.pop()
        elif is_name:
            string = token[1] or b""
            continue
        whole, closers = place, b"".join(_CLOSERS[part] for part in reversed(open_parts))
    return beginning[:whole] + closers, names[0] if len(open_parts) > 1 else ""


def _members(text: bytes) -> dict[str, Any]:
    """Members as they follow others in an object."""
    try:
        found = _decode(b"{%b}" % text.lstrip().removeprefix(b","))
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
