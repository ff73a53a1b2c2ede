"""HTTP header values that repeat a message's content in the stateless era. Source: WIRE 5.1, 5.3, 5.4."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.methods import METHODS

_PREFIX, _SUFFIX = "=?base64?", "?="

ROUTING_HEADERS = ("mcp-protocol-version", "mcp-method", "mcp-name")


def encode_value(value: str) -> str:
    """Make a header value that survives the trip: as is when plain, else Base64 between sentinels."""
    plain = all(" " <= char <= "~" for char in value)
    padded = value != value.strip(" \t")
    lookalike = value.startswith(_PREFIX) and value.endswith(_SUFFIX)
    if plain and not padded and not lookalike:
        return value
    return _PREFIX + base64.b64encode(value.encode()).decode("ascii") + _SUFFIX


def decode_value(value: str) -> str:
    """Undo `encode_value`.

    Raises: ValueError for characters no header may carry, and for sentinels around anything but canonical
    Base64 of UTF-8.
    """
    if not all(" " <= char <= "~" or char == "\t" for char in value):
        raise ValueError("it has characters other than visible ASCII and blanks")
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX + _SUFFIX)):
        return value
    body = value[len(_PREFIX) : -len(_SUFFIX)]
    try:
        raw = base64.b64decode(body, validate=True)
        text = raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if base64.b64encode(raw).decode("ascii") != body:
        raise ValueError("not canonical Base64")
    return text


def mismatch(reason: str) -> RemoteProtocolError:
    """The error for headers that are missing, malformed or contradict the body."""
    return RemoteProtocolError(ErrorCode.HEADER_MISMATCH, f"Header mismatch: {reason}")


def check_routing(headers: Mapping[str, str], version: str, method: str, params: Mapping[str, Any]) -> None:
    """Compare the routing headers (names in lower case) with the body.

    Raises: RemoteProtocolError (-32020, HTTP 400) naming the header.
    """
    given = headers.get("mcp-protocol-version")
    if given != version:
        raise mismatch(f"MCP-Protocol-Version is {_shown(given)}, the body says {version[:80]!r}")
    named = headers.get("mcp-method")
    if named != method:
        raise mismatch(f"Mcp-Method is {_shown(named)}, the body says {method[:80]!r}")
    known = METHODS.get(method)
    if known is not None and known.routing_field:
        check_name(headers.get("mcp-name"), params.get(known.routing_field))


def check_name(header: str | None, expected: object) -> None:
    """Compare `Mcp-Name` with what the body names.

    Raises: RemoteProtocolError (-32020, HTTP 400) saying what is wrong.
    """
    if header is None:
        raise mismatch("Mcp-Name is missing")
    if header == expected and header.isascii() and header.isprintable() and not header.startswith(_PREFIX):
        return
    try:
        decoded = decode_value(header)
    except ValueError as error:
        raise mismatch(f"Mcp-Name is malformed: {error}") from None
    if decoded != expected:
        raise mismatch(f"Mcp-Name is {decoded[:80]!r}, the body says {str(expected)[:80]!r}")


def _shown(value: str | None) -> str:
    return "missing" if value is None else repr(value[:80])
