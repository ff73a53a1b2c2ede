"""The dashboard in a browser: its page, the stream of updates, and the actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction
    from mcpdesk.hosting.host_part import HostPart, StartedCore
    from mcpdesk.link.feature_part import FeaturePart
    from mcpdesk.transports.http.extra_routes import ExtraRoutes
    from mcpdesk.transports.http.site import Site


class Dashboard(Feature):
    """The page at `/`, the routes below `/dashboard`, and the action of the desk that opens the page."""

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return the part that signs browsers in and out."""
        from mcpdesk.features.dashboard.browsers import BrowserAccess

        return [BrowserAccess(core)]

    def http_routes(self, site: Site) -> Sequence[ExtraRoutes]:
        """Return the entry, which loads the other modules at the first request."""
        from mcpdesk.features.dashboard.entry import DashboardEntry

        return [DashboardEntry(site)]

    def link_parts(self) -> Sequence[type[FeaturePart]]:
        """Return the state of the dashboard, with the requests to sign browsers in and out."""
        from mcpdesk.features.dashboard.browsers import BrowserView

        return (BrowserView,)

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the action that opens the dashboard."""
        from mcpdesk.features.dashboard.desk_actions import ACTIONS

        return ACTIONS


FEATURE = Dashboard()
