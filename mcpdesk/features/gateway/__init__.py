"""Gateway dialect: an older protocol at `/v1/mcp`. Its clients can call tools as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.transports.http.extra_routes import DialectPath
    from mcpdesk.transports.http.mcp_routes import McpRoutes
    from mcpdesk.transports.http.websocket import SocketRoutes


class Gateway(Feature):
    """The endpoints `/v1/mcp` and `/v1/ws/mcp`."""

    def dialect_paths(self, mcp: McpRoutes, sockets: SocketRoutes) -> Sequence[DialectPath]:
        """Return the paths of the gateway dialect."""
        from mcpdesk.features.gateway.gateway_paths import gateway_paths

        return gateway_paths(mcp, sockets)


FEATURE = Gateway()
