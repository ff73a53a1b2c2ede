"""Entry to the dashboard. This module is imported for every listener, the dashboard itself only if used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.features.dashboard.dashboard_data import PATH
from mcpdesk.transports.http.extra_routes import ExtraRoutes

if TYPE_CHECKING:
    from mcpdesk.features.dashboard.dashboard_routes import DashboardRoutes
    from mcpdesk.transports.http.site import Site


class DashboardEntry(ExtraRoutes):
    """Entry to the dashboard of one listener.

    The dashboard itself is created at the first request of a browser. If the core has no front ends, the
    listener has no dashboard.
    """

    front_line = "A browser gets the dashboard here."

    def __init__(self, site: Site) -> None:
        self._site = site
        self._routes: DashboardRoutes | None = None

    @property
    def has_sign_in(self) -> bool:
        """True if the core has a dashboard, whose page at `/` accepts sign-in links."""
        return self._site.front_end is not None

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """Answer a request for the dashboard. None for any other request."""
        accept = request.headers.get("Accept", "").lower()
        is_page = path == "/" and request.method in ("GET", "HEAD") and "text/html" in accept
        if not (is_page or path == PATH or path.startswith(f"{PATH}/")):
            return None
        if self._routes is None:
            front_end = self._site.front_end
            if front_end is None:
                return None
            from mcpdesk.features.dashboard.dashboard_routes import DashboardRoutes, page_files

            files = await asyncio.to_thread(page_files)
            if self._routes is None:  # another request may have created the dashboard
                self._routes = DashboardRoutes(self._site, front_end, files)
        return await self._routes.answer(request, path)

    async def close(self) -> None:
        """Close all pages."""
        if self._routes is not None:
            await self._routes.close()
