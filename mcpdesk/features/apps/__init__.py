"""MCP Apps: user interfaces of servers, each in a sandbox in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, ItemMark

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction
    from mcpdesk.hosting.host_part import HostPart, StartedCore
    from mcpdesk.link.feature_part import FeaturePart
    from mcpdesk.link.values import CatalogueItem


class Apps(Feature):
    """Pages with the apps of servers, and the key of the workbench that opens them."""

    # Source: MCP Apps 2026-01-26, Client<>Server Capability Negotiation
    client_extensions = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return the part that serves the pages."""
        from mcpdesk.features.apps.app_host import AppHost

        return [AppHost(core)]

    def link_parts(self) -> Sequence[type[FeaturePart]]:
        """Return the open apps, with the requests to open and close them."""
        from mcpdesk.features.apps.open_apps import OpenApps

        return (OpenApps,)

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the key of the workbench, and the actions of other screens."""
        from mcpdesk.features.apps.desk_actions import ACTIONS

        return ACTIONS

    def item_mark(self, item: CatalogueItem) -> ItemMark | None:
        """Return the mark of tools and resources that have an app."""
        from mcpdesk.features.apps.app_resource import app_uri

        if not app_uri(item.kind, item.name, item.definition):
            return None
        from mcpdesk.tui.actions import key_or_palette

        return ItemMark(f"app: {key_or_palette('workbench.open_app')} opens it", "▣")


FEATURE = Apps()
