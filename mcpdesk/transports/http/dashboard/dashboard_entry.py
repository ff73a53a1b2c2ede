"""Creates the dashboard when a browser first asks for it: most cores never need it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.transports.base import Rules, Site
from mcpdesk.transports.http.dashboard.dashboard_data import PATH

if TYPE_CHECKING:
    from mcpdesk.transports.http.dashboard.dashboard_routes import DashboardRoutes


class DashboardPlace:
    """The dashboard of one listener, if its core has one."""

    def __init__(
        self, site: Site, identify: Callable[[web.BaseRequest, Rules], Awaitable[Principal]]
    ) -> None:
        self._site = site
        self._identify = identify
        self._routes: DashboardRoutes | None = None

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """Answer a request for the dashboard; None: it is for something else."""
        is_below = path == PATH or path.startswith(f"{PATH}/")
        if not (is_below or (path == "/" and wants_page(request))):
            return None
        if self._routes is None:
            if self._site.board is None:
                return None
            from mcpdesk.transports.http.dashboard.dashboard_routes import DashboardRoutes

            self._routes = DashboardRoutes(self._site, self._site.board, self._identify)
        return await self._routes.answer(request, path)

    async def close(self) -> None:
        """End all pages."""
        if self._routes is not None:
            await self._routes.close()


def wants_page(request: web.BaseRequest) -> bool:
    """Whether a browser asks, which accepts HTML."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "").lower()
