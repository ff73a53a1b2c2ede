"""Pictures in results, drawn in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from textual.widget import Widget


class Pictures(Feature):
    """Pictures in sixels, by kitty's protocol, or in half blocks."""

    def picture_view(self, encoded: str, note: str) -> Widget | None:
        """Return a widget that draws the picture."""
        from mcpdesk.features.pictures.picture import PictureView

        return PictureView(encoded, note)


FEATURE = Pictures()
