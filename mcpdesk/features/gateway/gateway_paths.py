"""Paths of the gateway dialect: `/v1/mcp`, and `/v1/ws/mcp` for WebSockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.features.gateway.gateway_dialect import GatewayDialect
from mcpdesk.transports.http.extra_routes import DialectPath
from mcpdesk.transports.http.mcp_routes import McpRoutes, Verb
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import json_answer
from mcpdesk.transports.http.websocket import SocketRoutes

if TYPE_CHECKING:
    from mcpdesk.transports.http.site import Endpoint

ALLOW_HEADER = {"Allow": "GET, OPTIONS, POST, DELETE"}


def gateway_paths(mcp: McpRoutes, sockets: SocketRoutes) -> list[DialectPath]:
    """Return the paths of the dialect. The handlers of standard MCP serve its messages."""

    async def discover_or_get(
        request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Return the discovery document.

        For a client with a session, open its stream for server messages instead.
        """
        head, gateway = head_of(request), endpoint.in_dialect(GatewayDialect)
        if head.session is not None or not head.accepted.json:
            return await mcp.get(request, gateway, caller)
        return json_answer(200, gateway.description())

    verbs: dict[str, Verb] = {
        "POST": _through_gateway(mcp.post),
        "DELETE": _through_gateway(mcp.delete),
        "GET": discover_or_get,
        "OPTIONS": _discover,
    }
    socket_verbs = {"GET": _through_gateway(sockets.get)}
    return [
        DialectPath("/v1/mcp", verbs, "gateway clients"),
        DialectPath("/v1/ws/mcp", socket_verbs, takes_key_in_query=True),
    ]


async def _discover(
    request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
) -> web.StreamResponse:
    """Return the discovery document."""
    return json_answer(200, endpoint.in_dialect(GatewayDialect).description(), ALLOW_HEADER)


def _through_gateway(verb: Verb) -> Verb:
    """Return a handler that serves clients of the gateway dialect."""
    return lambda request, endpoint, caller: verb(request, endpoint.in_dialect(GatewayDialect), caller)
