"""Resources and resource templates: definitions and how they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec import field

from mcpdesk.server.offer.registry import Item

Completer = Callable[[str, dict[str, str], Any], Awaitable[Iterable[str]]]
"""What was typed so far, the arguments already given and a `Context` in; suggestions out, best first."""
Reader = Callable[[str, dict[str, str], Any], Awaitable[Any]]
"""URI, template variables (empty for a plain resource) and a `Context` in; str, bytes, a JSON-able value or a
list of wire content objects out; None: nothing is there."""


class Resource(Item, frozen=True):
    """One resource at a fixed URI."""

    uri: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    size: int | None = None
    """Bytes; None when not known without reading."""
    path: str = ""
    """Path relative to the server folder, under which it can be read as well; empty for dynamic ones."""


class ResourceTemplate(Item, frozen=True):
    """A family of resources behind an RFC 6570 template."""

    uri_template: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    completers: Mapping[str, Completer] = field(default_factory=dict)
    """By variable: what suggests values for it."""
