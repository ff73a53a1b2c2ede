"""Pages of listed origins may read what they are answered: browsers are told so. Source: Fetch, CORS."""

from __future__ import annotations

from aiohttp import web

from mcpdesk.auth.http_origin import is_listed
from mcpdesk.transports.http.head import place_of

SHARED = ("/mcp", "/v1/", "/jobs", "/health", "/status", "/metrics", "/.well-known/")
"""Paths for clients. The dashboard is for nobody's page but its own."""
ASKS_FIRST = "Access-Control-Request-Method"
"""What makes an OPTIONS request a browser's question rather than a client's."""
METHODS = "GET, POST, DELETE, OPTIONS"
READABLE = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Content-Disposition"
"""Headers of answers that a page may read besides the few it always may."""
HOLDS_S = 600
"""How long a browser need not ask again."""
LONGEST = 2_000
"""Characters of the headers a page asks for."""


def page_headers(request: web.BaseRequest, origins: tuple[str, ...]) -> dict[str, str]:
    """Return the headers that let the page of a listed origin read the answer; none for all others."""
    origin = request.headers.get("Origin")
    if origin is None or not _is_shared(request.path) or not is_listed(origin, origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Expose-Headers": READABLE,
        "Vary": "Origin",
    }


def is_question(request: web.BaseRequest) -> bool:
    """Whether a browser asks what its page may send."""
    return request.method == "OPTIONS" and ASKS_FIRST in request.headers


def permission(request: web.BaseRequest) -> web.Response:
    """What a browser asks for before it sends. It carries neither key nor token."""
    told = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(HOLDS_S)}
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    if wanted and len(wanted) <= LONGEST:
        told["Access-Control-Allow-Headers"] = wanted
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        told["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=told)


def _is_shared(path: str) -> bool:
    return path.startswith(SHARED) or place_of(path)[1] is not None
