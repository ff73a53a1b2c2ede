"""Base class of the routes that features add to a listener."""

from __future__ import annotations

from aiohttp import web


class ExtraRoutes:
    """Routes of one listener."""

    front_line = ""
    """Line about these routes on the front page, or empty."""

    @property
    def has_sign_in(self) -> bool:
        """True if the page at `/` accepts links that sign in the operator."""
        return False

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse | None:
        """Answer a request. Return None if the path is another one."""
        return None

    async def close(self) -> None:
        """End open streams."""
