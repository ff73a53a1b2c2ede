"""`/v1/mcp` and `/v1/ws/mcp`: discovery by GET and OPTIONS, and the protocol's own routes in the dialect."""

from __future__ import annotations

from collections.abc import Awaitable

from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.transports.base import Endpoint
from mcpdesk.transports.http.answers import json_answer
from mcpdesk.transports.http.head import head_of
from mcpdesk.transports.http.mcp import McpRoutes
from mcpdesk.transports.http.websocket import SocketRoutes

ALLOWED = {"Allow": "GET, OPTIONS, POST, DELETE"}


class GatewayRoutes:
    """The dialect's endpoint of every server of a site."""

    def __init__(self, mcp: McpRoutes, sockets: SocketRoutes) -> None:
        self._mcp = mcp
        self._sockets = sockets

    def post(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> Awaitable[web.StreamResponse]:
        """Answer one POSTed message or batch."""
        return self._mcp.post(request, endpoint.gateway, caller)

    async def get(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Say what is here; for the protocol's clients their session's standing stream."""
        head = head_of(request)
        if head.session is not None or not head.accepted.json:
            return await self._mcp.get(request, endpoint.gateway, caller)
        return json_answer(200, endpoint.gateway.discovery())

    async def options(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Say what is here."""
        return json_answer(200, endpoint.gateway.discovery(), ALLOWED)

    def delete(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> Awaitable[web.StreamResponse]:
        """End a session."""
        return self._mcp.delete(request, endpoint.gateway, caller)

    def socket(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> Awaitable[web.StreamResponse]:
        """Upgrade the connection and serve it until one side closes."""
        return self._sockets.get(request, endpoint.gateway, caller)
