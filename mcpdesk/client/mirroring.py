"""Arguments that headers of the stateless era repeat, from the client's side. Source: WIRE 5.3."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from mcpdesk.protocol.headers import encode_value, mirrored, value_at

_LOG = logging.getLogger("mcpdesk.bridge")


def mirror(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """The headers for these arguments; none for what is absent or null."""
    headers = {}
    for each in mirrored(schema):
        value = value_at(each.path, arguments)
        if value is not None:
            headers[each.header] = encode_value(_text(value))
    return headers


def without_invalid(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools whose marks follow the rules; the others are logged, and cannot be called by anybody."""
    kept = []
    for tool in tools:
        try:
            mirrored(tool["inputSchema"])
        except ValueError as error:
            _LOG.warning("tool %r is left out: %s", tool["name"][:80], error)
        else:
            kept.append(tool)
    return kept


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
