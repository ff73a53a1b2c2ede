"""JSON for a page: what clients sent may hold halves of characters and numbers no JSON here can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec

LARGEST = 1 << 53
"""Beyond it a browser's numbers are not exact: they are told as text."""


def encode(value: Any) -> bytes:
    """Any value as JSON; what cannot be said is said as nearly as it can."""
    try:
        return codec.encode(value)
    except ProtocolError:
        return codec.encode(_sayable(value))


def _sayable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_sayable(str(key)): _sayable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(item) for item in value]
    if isinstance(value, int) and abs(value) > LARGEST:
        return str(value)
    return value
