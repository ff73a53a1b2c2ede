"""Resources and resource templates: their definitions, and functions that read them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from msgspec import field

from mcpdesk.server.offer.registry import Item

Completer = Callable[[str, dict[str, str], Any], Awaitable[Iterable[str]]]
"""Function that takes the typed text, the other arguments and a `Context`. It returns suggestions, best
first.
"""
Reader = Callable[[str, dict[str, str], Any], Awaitable[Any]]
"""Function that takes a URI, the variables of the template (empty for a resource) and a `Context`.

It returns text, bytes, a list of content objects, or a value that is converted to JSON, such as a dataclass.
None if the resource does not exist.
"""


class Resource(Item, frozen=True):
    """Resource with a fixed URI."""

    uri: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    size: int | None = None
    """Size in bytes, or None if it is unknown before reading."""
    path: str = ""
    """Path relative to the server folder, or "" if the resource has no file. Clients may use a path like a
    URI.
    """


class ResourceTemplate(Item, frozen=True):
    """Resources whose URIs match an RFC 6570 template."""

    uri_template: str
    name: str
    reader: Reader
    mime_type: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    completers: Mapping[str, Completer] = field(default_factory=dict)
    """Functions that suggest values, by variable."""
