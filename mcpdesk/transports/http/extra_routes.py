"""Routes that features add to a listener: pages and interfaces, and paths for clients of a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

if TYPE_CHECKING:
    from mcpdesk.transports.http.mcp_routes import Verb


class ExtraRoutes:
    """Routes that a feature adds to one listener."""

    front_line = ""
    """Line about these routes on the front page, or empty."""

    @property
    def has_sign_in(self) -> bool:
        """True if the page at `/` accepts links that sign in the operator."""
        return False

    def greeting(self, address: str) -> str:
        """Return a message of `mcpdesk serve` about these routes, or "".

        `address` is the address of the listener.
        """
        return ""

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """Answer a request. Return None if these routes do not have the path."""
        return None

    async def close(self) -> None:
        """End open streams."""


class DialectPath(NamedTuple):
    """Path where clients use a dialect. The query parameter `server` selects the server."""

    path: str
    verbs: Mapping[str, Verb]
    """Handlers by method."""
    clients: str = ""
    """Clients that use the path, as the front page names them. If empty, the path is not listed."""
    takes_key_in_query: bool = False
    """True if the key may be in `?api_key=`, because browsers send no headers with a WebSocket."""
