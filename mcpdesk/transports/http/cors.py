"""Pages of listed origins may read what they are answered: browsers are told so. Source: Fetch, CORS."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from mcpdesk.auth.policy import is_listed
from mcpdesk.transports.http.head import place_of
from mcpdesk.transports.http.ready import Ready

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

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Pages:
    """A handler that tells pages of these origins what they may. `refuse` looks at Host and Origin."""

    def __init__(
        self,
        handler: Handler,
        refuse: Callable[[web.BaseRequest], web.Response | None],
        origins: tuple[str, ...],
    ) -> None:
        self._handler = handler
        self._refuse = refuse
        self._origins = origins

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        origin = request.headers.get("Origin")
        if origin is None or not _is_shared(request.path) or not is_listed(origin, self._origins):
            return await self._handler(request)
        told = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Credentials": "true",
            "Vary": "Origin",
        }
        if request.method == "OPTIONS" and ASKS_FIRST in request.headers:
            return self._refuse(request) or _permission(request, told)
        told["Access-Control-Expose-Headers"] = READABLE
        # Streams begin while they are handled; all but our own answers pass here on their way out.
        request._prepare_hook = partial(_tell, told)  # type: ignore[method-assign]
        answer = await self._handler(request)
        if isinstance(answer, Ready):
            answer.add(told)
        return answer


def _is_shared(path: str) -> bool:
    return path.startswith(SHARED) or place_of(path)[1] is not None


def _permission(request: web.BaseRequest, told: dict[str, str]) -> web.Response:
    """What a browser asks for before it sends: it carries neither key nor token."""
    told |= {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(HOLDS_S)}
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    if wanted and len(wanted) <= LONGEST:
        told["Access-Control-Allow-Headers"] = wanted
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        told["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=told)


async def _tell(told: Mapping[str, str], response: web.StreamResponse) -> None:
    response.headers.update(told)
