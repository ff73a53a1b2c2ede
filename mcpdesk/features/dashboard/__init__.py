"""The dashboard in a browser: its page, the stream of updates, and the actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.transports.http.extra_routes import ExtraRoutes
    from mcpdesk.transports.http.site import Site


class Dashboard(Feature):
    """The page at `/`, and the routes below `/dashboard`."""

    def http_routes(self, site: Site) -> Sequence[ExtraRoutes]:
        """Return the entry, which loads the other modules at the first request."""
        from mcpdesk.features.dashboard.entry import DashboardEntry

        return [DashboardEntry(site)]


FEATURE = Dashboard()
