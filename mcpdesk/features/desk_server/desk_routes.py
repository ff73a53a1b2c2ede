"""Endpoint `/desk/mcp`: MCP over Streamable HTTP, for programs with the operator's key."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from mcpdesk.auth.http_origin import is_same_site
from mcpdesk.auth.operator import OPERATOR_HEADER
from mcpdesk.auth.principal import OPEN
from mcpdesk.transports.http.extra_routes import ExtraRoutes
from mcpdesk.transports.http.mcp_routes import McpRoutes
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import method_error, plain_error

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.recorder.record import ConnectionInfo
    from mcpdesk.transports.base import Rules
    from mcpdesk.transports.http.mcp_routes import Verb
    from mcpdesk.transports.http.site import Site

PATH = "/desk/mcp"
PEER = "agent"
"""Client name of programs that call tools through the endpoint. Calls of the person have the name `desk`."""
KEY_HINT = "`mcpdesk serve` prints the path of the file with the operator's key"


class DeskRoutes(ExtraRoutes):
    """The endpoint of one listener. The server is created at the first request."""

    front_line = f"Agents with the operator's key debug these servers at {PATH}."

    def __init__(self, site: Site) -> None:
        self._site = site
        self._creation_lock = asyncio.Lock()
        self._endpoint: HostedEndpoint | None = None
        # The recorder would record what an agent reads of the traffic as new traffic.
        self._mcp = McpRoutes(cast("Site", _UnrecordedSite(site)), lambda sessions: None)
        self._verbs: Mapping[str, Verb] = {
            "POST": self._mcp.post,
            "GET": self._mcp.get,
            "DELETE": self._mcp.delete,
        }

    def greeting(self, address: str) -> str:
        """Return the address of the endpoint."""
        return f"agents debug these servers at {address}{PATH}, with the operator's key as {OPERATOR_HEADER}"

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """Answer a request for the endpoint. Return None for any other path."""
        if path != PATH or self._site.own_front_end is None:
            return None
        origin = request.headers.get("Origin")
        if origin is not None and not is_same_site(origin, request.headers.get("Host")):
            return plain_error(403, "Pages of other sites must not use this endpoint")
        head = head_of(request)
        head.hide(OPERATOR_HEADER)
        if not self._site.operator.matches(request.headers.get(OPERATOR_HEADER)):
            # A 401 would start an OAuth login in most clients.
            state = "wrong" if OPERATOR_HEADER in request.headers else "missing"
            return plain_error(
                403, f"Forbidden: {state} operator's key in the header {OPERATOR_HEADER}", hint=KEY_HINT
            )
        verb = self._verbs.get(head.method)
        if verb is None:
            return method_error(request, tuple(self._verbs))
        return await verb(request, await self._created_endpoint(), OPEN)

    async def close(self) -> None:
        """End all sessions."""
        self._mcp.sessions.close()
        await self._mcp.sessions.wait_until_left()

    async def _created_endpoint(self) -> HostedEndpoint:
        """Return the server, which is created at the first request."""
        async with self._creation_lock:
            if self._endpoint is None:
                self._endpoint = await asyncio.to_thread(self._create_endpoint)
            return self._endpoint

    def _create_endpoint(self) -> HostedEndpoint:
        from mcpdesk.features.desk_server.desk_tools import desk_server
        from mcpdesk.hosting.endpoint import HostedEndpoint
        from mcpdesk.server.calls.services import Services

        def discard_log(*_: object, **__: object) -> None:
            """Discard the log line."""

        # A link to all cores would be connected only while a person watches.
        open_front_end = self._site.own_front_end
        assert open_front_end is not None
        server = desk_server(open_front_end(PEER).link)
        return HostedEndpoint(server, Services(discard_log), DiscardingRecorder())


class DiscardingRecorder:
    """Recorder that discards everything."""

    def connect(self, info: ConnectionInfo) -> None:
        """Discard the connection."""

    def frame(self, *_: Any, **__: Any) -> int:
        """Discard the frame."""
        return 0

    def remark(self, *_: Any, **__: Any) -> None:
        """Discard the remark."""

    def frame_batch(self, *_: Any, **__: Any) -> int:
        """Discard the frames."""
        return 0


class _UnrecordedSite:
    """The members of a site that the protocol endpoints use, without its recorder."""

    state_dir = None
    shared = None
    recorder = DiscardingRecorder()

    def __init__(self, site: Site) -> None:
        self._site = site

    @property
    def rules(self) -> Rules:
        return self._site.rules
