"""Scrolling container for texts. The text at its top stays there when the width or the wrapping changes."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.widget import Widget

from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.results.long_text import LongText
from mcpdesk.tui.results.sideways_text import SidewaysText
from mcpdesk.tui.widgets.line_list import SCROLL_BINDINGS


class SteadyTextScroll(SidewaysText, VerticalScroll):
    """Container that remembers the text at its top, and scrolls back to it when the width has changed.

    The position is a block and the share of this block that is scrolled out. A `LongText` keeps its own
    position, which is precise to the character.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_BINDINGS, *bindings_for("long_text")]
    _width = 0
    """Width in cells at which the position was read."""
    _position: tuple[Widget, float] | None = None
    """Block at the top, and the share of its rows that are scrolled out. None if nothing is scrolled out."""
    _is_returning = False

    @property
    def texts(self) -> list[LongText]:
        """Texts, in order."""
        return [child for child in self.children if isinstance(child, LongText)]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys for wrapping if there is a text."""
        return self.allows(action)

    @property
    def has_text(self) -> bool:
        return bool(self.texts)

    @property
    def text_width(self) -> int:
        return max((text.size.width for text in self.texts), default=0)

    def widest_row(self) -> int:
        top, height = self.scroll_offset.y, self.size.height
        widths = []
        for text in self.texts:
            first_row = top - text.virtual_region.y
            widths.append(text.widest_row(first_row, first_row + height - 1))
        return max(widths, default=0)

    def wrapping_changed(self) -> int:
        self.screen.clear_selection()
        if self._position is not None:
            self._is_returning = True
            self.call_after_refresh(self._return)
        return max((text.change_wrapping() for text in self.texts), default=0)

    def columns_changed(self) -> None:
        for text in self.texts:
            text.refresh()
        self.refresh_bindings()

    def forget_position(self) -> None:
        """Go to the top at once, so that texts mounted next do not keep the position of removed texts."""
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self._position = None

    def action_scroll_end(self) -> None:
        """Lay out all texts, and go to the end without animation, because the distance may be long."""
        for text in self.texts:
            text.complete()
        self.call_after_refresh(self.scroll_end, animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Remember the position, unless the layout caused the scrolling."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_returning and self.size.width == self._width:
            self._position = self._read_position(round(new_value))

    def on_resize(self) -> None:
        """Return to the position after the layout at the new width."""
        if self.size.width == self._width:
            return
        is_first, self._width = not self._width, self.size.width
        if not is_first and self._position is not None:
            self._is_returning = True
            self.call_after_refresh(self._return)

    def _return(self) -> None:
        try:
            block, share = self._position or (None, 0.0)
            if block is None or not block.is_attached or isinstance(block, LongText):
                return
            region = self._region_of(block)
            y = region.y + round(share * region.height)
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._is_returning = False

    def _read_position(self, y: int) -> tuple[Widget, float] | None:
        """Return the innermost block at row `y`, and the share of its rows that are above `y`.

        If `y` is between two blocks, return the next block. Return None if `y` is 0, or below all blocks.
        """
        innermost: Widget | None = None
        region, blocks = Region(), list(self.displayed_children)
        while y > 0 and blocks:
            blocks_ending_below = (candidate for candidate in blocks if self._region_of(candidate).bottom > y)
            block = next(blocks_ending_below, None)
            if block is None:
                break
            innermost, region = block, self._region_of(block)
            blocks = list(block.displayed_children)
        if innermost is None:
            return None
        return innermost, max(0.0, (y - region.y) / max(1, region.height))

    def _region_of(self, block: Widget) -> Region:
        """Return the region of a block relative to the content."""
        region, parent = block.virtual_region, block.parent
        while isinstance(parent, Widget) and parent is not self:
            region = region.translate(parent.virtual_region.offset + parent.gutter.top_left)
            parent = parent.parent
        return region
