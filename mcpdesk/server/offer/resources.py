"""Resources and resource templates: definitions and readers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec import field

from mcpdesk.server.offer.registry import Item

Completer = Callable[[str, dict[str, str], Any], Awaitable[Iterable[str]]]
"""Takes the typed text, the arguments already given and a `Context`. Returns suggestions, best first."""
Reader = Callable[[str, dict[str, str], Any], Awaitable[Any]]
"""Takes a URI, the template variables (empty for a plain resource) and a `Context`. Returns str, bytes, a
value for JSON or a list of wire content objects; None if the resource does not exist."""


class Resource(Item, frozen=True):
    """One resource at a fixed URI."""

    uri: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    size: int | None = None
    """Size in bytes, or None if it is unknown without reading."""
    path: str = ""
    """Path relative to the server folder, which is accepted as a URI, too; empty for dynamic resources."""


class ResourceTemplate(Item, frozen=True):
    """Family of resources with an RFC 6570 URI template."""

    uri_template: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    completers: Mapping[str, Completer] = field(default_factory=dict)
    """Functions that suggest values, by variable."""
