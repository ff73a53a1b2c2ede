"""Names in `_meta`: how they are made, and which are the protocol's own. Source: WIRE 2.4."""

from __future__ import annotations

import re
from collections.abc import Iterable

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY = rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_OWN = frozenset({"modelcontextprotocol", "mcp"})
_NAMES = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
LONGEST_SHOWN = 80


def check_names(keys: Iterable[str]) -> None:
    """Whether an author may use these names.

    Raises: ValueError naming the first that is malformed, or that the protocol keeps for itself.
    """
    for key in keys:
        found, shown = re.fullmatch(_KEY, key), repr(key[:LONGEST_SHOWN])
        if found is None or not key:
            raise ValueError(f"_meta: {shown} is no name; write one like 'example.org/colour'")
        if key in _NAMES or _is_reserved(found["prefix"]):
            raise ValueError(f"_meta: {shown} belongs to the protocol")


def _is_reserved(prefix: str | None) -> bool:
    """The second label decides; the first revision with a rule looked at the last but one."""
    labels = (prefix or "").split(".")
    return len(labels) > 1 and (labels[1] in _OWN or labels[-2] in _OWN)
