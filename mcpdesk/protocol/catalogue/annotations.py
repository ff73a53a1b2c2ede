"""Checks of hints, annotations, icons and `_meta` that an author attaches to an item.

Clients make the same checks. Source: MCP basic, schema, server/tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
AUDIENCE = ("user", "assistant")


def check_hints(hints: Mapping[str, Any]) -> None:
    """Check the annotations of a tool. Raises: ValueError for the first invalid annotation."""
    for name in HINTS:
        if not isinstance(hints.get(name, True), bool):
            raise _invalid_annotation(name, "true or false", hints[name])
    if not isinstance(hints.get("title", ""), str):
        raise _invalid_annotation("title", "a text", hints["title"])


def check_annotations(value: Any) -> None:
    """Check the annotations of a resource or of content. Raises: ValueError with the fault."""
    if not isinstance(value, Mapping):
        raise ValueError(f"annotations must be an object, not {_quoted(value)}")
    audience = value.get("audience", [])
    if not isinstance(audience, list | tuple) or not all(each in AUDIENCE for each in audience):
        raise _invalid_annotation("audience", f"a list of {' and '.join(AUDIENCE)}", audience)
    priority = value.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        raise _invalid_annotation("priority", "a number from 0 to 1", priority)
    modified = value.get("lastModified", "")
    if not isinstance(modified, str) and not hasattr(modified, "isoformat"):
        raise _invalid_annotation("lastModified", "a date and time", modified)


def _invalid_annotation(name: str, allowed: str, value: object) -> ValueError:
    return ValueError(f"annotations: {name} must be {allowed}, not {_quoted(value)}")


def _quoted(value: object) -> str:
    return repr(value)[:80]


ICON_SCHEMES = ("https", "data", "http")
ICON_THEMES = ("light", "dark")


def check_icons(icons: Iterable[Mapping[str, Any]]) -> None:
    """Check a list of icons. Raises: ValueError with the fault."""
    for icon in icons:
        source = icon.get("src")
        if not isinstance(source, str) or urlsplit(source).scheme not in ICON_SCHEMES:
            raise ValueError(f"icons: src must begin with https:// or data:, not {str(source)[:80]!r}")
        if not isinstance(icon.get("mimeType", ""), str):
            raise ValueError(f"icons: mimeType must be a text, not {str(icon['mimeType'])[:80]!r}")
        sizes = icon.get("sizes", [])
        if not isinstance(sizes, list | tuple) or not all(isinstance(each, str) for each in sizes):
            raise ValueError(f'icons: sizes must be a list like ["48x48"], not {str(sizes)[:80]!r}')
        if icon.get("theme", ICON_THEMES[0]) not in ICON_THEMES:
            themes = " or ".join(ICON_THEMES)
            raise ValueError(f"icons: theme must be {themes}, not {str(icon['theme'])[:80]!r}")


_META_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_PREFIX = rf"(?:(?P<prefix>{_META_LABEL}(?:\.{_META_LABEL})*)/)?"
_META_KEY = rf"{_META_PREFIX}(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_PROTOCOL_LABELS = frozenset({"modelcontextprotocol", "mcp"})
_PROTOCOL_KEYS = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
_MAX_QUOTED_LENGTH = 80


def check_meta_keys(keys: Iterable[str]) -> None:
    """Check that an author may use these keys of `_meta`.

    Raises: ValueError for the first key that is malformed or reserved for the protocol.
    """
    for key in keys:
        match, quoted_key = re.fullmatch(_META_KEY, key), repr(key[:_MAX_QUOTED_LENGTH])
        if match is None or not key:
            raise ValueError(f"_meta: {quoted_key} is not a valid name; write one like 'example.org/colour'")
        if key in _PROTOCOL_KEYS or _is_reserved(match["prefix"]):
            raise ValueError(f"_meta: {quoted_key} belongs to the protocol")


def _is_reserved(prefix: str | None) -> bool:
    """Return True if a prefix is reserved for the protocol.

    It is reserved if its second label is one of the protocol's labels. By the rule of the first revision that
    reserved prefixes, it is also reserved if its second-last label is one of them.
    """
    labels = (prefix or "").split(".")
    return len(labels) > 1 and (labels[1] in _PROTOCOL_LABELS or labels[-2] in _PROTOCOL_LABELS)
