"""A picture drawn in the terminal."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.tui.render.half_blocks import PictureError, draw
from mcpdesk.tui.render.text import one_line

MAX_ROWS = 30


class Picture(Widget):
    """As large as the room allows; a word where it cannot be drawn."""

    DEFAULT_CSS = "Picture { width: 1fr; height: auto; }"

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self._drawn: list[Strip] = []
        self._width = 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many rows as the picture takes at this width."""
        return max(1, len(self._strips(width)))

    def render_line(self, y: int) -> Strip:
        """Two rows of pixels."""
        strips = self._strips(self.size.width)
        strip = strips[y] if y < len(strips) else Strip.blank(0)
        return strip.adjust_cell_length(self.size.width, self.rich_style)

    def _strips(self, width: int) -> list[Strip]:
        if width != self._width:
            self._width = width
            try:
                self._drawn = draw(self._data, max(1, width), MAX_ROWS)
            except PictureError as error:
                self._drawn = [Strip([Segment(one_line(f"✗ cannot be drawn: {error}", max(1, width)))])]
        return self._drawn
