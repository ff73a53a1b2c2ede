"""The desk in a browser: `--web` and the setting `web`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from mcpdesk.feature import ServedCore
    from mcpdesk.settings import Settings


class BrowserDeskFeature(Feature):
    """Browser pages with a terminal. A screen of the core runs in each page."""

    def require_free_address(self, settings: Settings) -> None:
        """Check the address of `web`."""
        from mcpdesk.features.browser_desk.serving import require_free_address

        require_free_address(settings)

    def served_pages(self, core: ServedCore, theme: str | None) -> AbstractContextManager[list[str]]:
        """Serve the pages at the address of `web`."""
        from mcpdesk.features.browser_desk.serving import served_pages

        return served_pages(core, theme)


FEATURE = BrowserDeskFeature()
