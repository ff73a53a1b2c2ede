"""The desk itself as an MCP server, with which an agent debugs servers while a person watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import CoreOption
    from mcpdesk.transports.http.extra_routes import ExtraRoutes
    from mcpdesk.transports.http.site import Site


class DeskServer(Feature):
    """The option `--desk`, and the endpoint `/desk/mcp`."""

    def core_options(self) -> Sequence[CoreOption]:
        """Return the option `--desk`."""
        from mcpdesk.features.desk_server.desk_option import DESK

        return (DESK,)

    def http_routes(self, site: Site) -> Sequence[ExtraRoutes]:
        """Return the endpoint if `--desk` was given."""
        from mcpdesk.features.desk_server.desk_option import DESK

        if not site.feature_options.get(DESK.name):
            return []
        from mcpdesk.features.desk_server.desk_routes import DeskRoutes

        return [DeskRoutes(site)]


FEATURE = DeskServer()
