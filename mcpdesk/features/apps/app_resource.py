"""Metadata of apps in the definitions of tools, and the resource with the page of an app.

Source: MCP Apps 2026-01-26, UI Resource Format, Resource Discovery.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from mcpdesk.features.apps.content_policy import AppPolicy

MIME_TYPE: Final = "text/html;profile=mcp-app"
SCHEME: Final = "ui://"
MAX_HTML_BYTES = 8 << 20
"""Maximum size in bytes of the page of an app."""
MAX_URI_LENGTH = 2_048
"""Maximum length in characters of the URI of an app."""


class AppPage(Struct, frozen=True):
    """Page of an app."""

    html: str
    policy: AppPolicy
    prefers_border: bool | None = None
    """True or False if the resource asks for a border or for none. None if the host decides."""


def interface_of(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `_meta.ui` of a definition or of the content of a resource, or an empty mapping."""
    meta = definition.get("_meta")
    interface = meta.get("ui") if isinstance(meta, dict) else None
    return interface if isinstance(interface, dict) else {}


def tool_app_uri(definition: Mapping[str, Any]) -> str:
    """Return the URI of a tool's app, or "" if the tool has none.

    If the key `resourceUri` is missing, the deprecated key `ui/resourceUri` is used.
    """
    meta = definition.get("_meta")
    uri = interface_of(definition).get("resourceUri")
    if uri is None and isinstance(meta, dict):
        uri = meta.get("ui/resourceUri")
    return uri if isinstance(uri, str) and is_app_uri(uri) else ""


def app_uri(kind: str, name: str, definition: Mapping[str, Any]) -> str:
    """Return the URI of the app of a catalogue item, or "" if the item has none."""
    if kind == "tool":
        return tool_app_uri(definition)
    return name if kind == "resource" and is_app_uri(name) else ""


def is_app_uri(uri: str) -> bool:
    """Return True if a URI can be that of an app."""
    return uri.startswith(SCHEME) and len(SCHEME) < len(uri) <= MAX_URI_LENGTH


def is_for_apps(definition: Mapping[str, Any]) -> bool:
    """Return True if apps of the same server may call a tool."""
    visibility = interface_of(definition).get("visibility")
    return not isinstance(visibility, list) or "app" in visibility


def app_page(uri: str, result: Mapping[str, Any]) -> AppPage:
    """Return the page in the result of `resources/read`. Raises: ValueError."""
    from mcpdesk.features.apps.content_policy import app_policy

    contents = result.get("contents")
    items = [each for each in contents if isinstance(each, dict)] if isinstance(contents, list) else []
    content = next((each for each in items if each.get("uri") == uri), None)
    if content is None:
        raise ValueError(f"The server returned no content with the URI {uri}.")
    if content.get("mimeType") != MIME_TYPE:
        media_type = str(content.get("mimeType"))[:80]
        raise ValueError(f"The media type of {uri} is {media_type}; it must be {MIME_TYPE}.")
    interface = interface_of(content)
    border = interface.get("prefersBorder")
    return AppPage(_html(uri, content), app_policy(interface), border if isinstance(border, bool) else None)


def _html(uri: str, content: Mapping[str, Any]) -> str:
    """Return the HTML in the content of a resource. Raises: ValueError."""
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str):
        size = len(text.encode(errors="replace"))
    elif isinstance(blob, str):
        size = len(blob) * 3 // 4
    else:
        raise ValueError(f"{uri} has neither text nor blob.")
    if size > MAX_HTML_BYTES:
        raise ValueError(f"{uri} has {size:,} bytes; an app has at most {MAX_HTML_BYTES:,}.")
    if isinstance(text, str):
        return text
    try:
        return b64decode(str(blob), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError(f"The blob of {uri} is not UTF-8 text in base64.") from None
