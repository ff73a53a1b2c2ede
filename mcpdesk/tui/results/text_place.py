"""A scrolling container that keeps the text at its top there when its width changes and the text wraps."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.widget import Widget

from mcpdesk.tui.results.long_text import LongText


class KeepsTextPlace(VerticalScroll):
    """Remembers which block is at the top and which share of it is above, and returns to it.

    A `LongText` does the same by itself, to the character.
    """

    _width = 0
    """Width in cells that the place was read at."""
    _place: tuple[Widget, float] | None = None
    """Block at the top, and the share of its rows that is above; None at the very top."""
    _is_returning = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Remember what is at the top now, unless the layout scrolled."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_returning and self.size.width == self._width:
            self._place = self._read_place(round(new_value))

    def on_resize(self) -> None:
        """Return to the place once the new rows are laid out."""
        if self.size.width == self._width:
            return
        is_first, self._width = not self._width, self.size.width
        if not is_first and self._place is not None:
            self._is_returning = True
            self.call_after_refresh(self._return)

    def _return(self) -> None:
        try:
            block, share = self._place or (None, 0.0)
            if block is None or not block.is_attached or isinstance(block, LongText):
                return
            region = self._region_of(block)
            y = region.y + round(share * region.height)
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._is_returning = False

    def _read_place(self, y: int) -> tuple[Widget, float] | None:
        """The innermost block that row `y` belongs to, or the next one where it is between two."""
        found: Widget | None = None
        region, blocks = Region(), list(self.displayed_children)
        while y > 0 and blocks:
            below = (each for each in blocks if self._region_of(each).bottom > y)
            block = next(below, None)
            if block is None:
                break
            found, region = block, self._region_of(block)
            blocks = list(block.displayed_children)
        if found is None:
            return None
        return found, max(0.0, (y - region.y) / max(1, region.height))

    def _region_of(self, block: Widget) -> Region:
        """The rows of a block, counted from the top of the content."""
        region, parent = block.virtual_region, block.parent
        while isinstance(parent, Widget) and parent is not self:
            region = region.translate(parent.virtual_region.offset + parent.gutter.top_left)
            parent = parent.parent
        return region
