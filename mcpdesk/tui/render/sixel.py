"""Pictures as sixels, one row of cells at a time, so that a row can be drawn wherever it scrolls to.

A picture in sixels has no cells: what is written onto its place wipes it away, and it comes back when its row
is drawn again. The encoder is textual-image's; its widgets would ask the terminal when they are imported, and
encode on the screen's loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from PIL.Image import Image

_SAVE, _RESTORE = "\x1b7", "\x1b8"


def sixel_rows(image: Image, cell_height: int) -> Iterator[str]:
    """The sequences that draw an RGB picture, one for each row of cells from the top."""
    from PIL.Image import Quantize
    from textual_image._sixel import image_to_sixels

    reduced = image.quantize(colors=256, method=Quantize.FASTOCTREE)
    for top in range(0, image.height, cell_height):
        yield image_to_sixels(reduced.crop((0, top, image.width, min(top + cell_height, image.height))))


class SixelStrip(Strip):
    """Blanks with a row of a picture over the first `columns` of them."""

    __slots__ = ("_columns", "_sequence", "_style")

    def __init__(self, sequence: str, columns: int, width: int, style: Style) -> None:
        super().__init__([Segment(" " * width, style)], width)
        self._sequence = sequence
        self._columns = columns
        self._style = style

    def divide(self, cuts: Iterable[int]) -> list[Strip]:
        """The picture stays in the first piece if it fits; with something lying over it, blanks are left."""
        edges = [cut for cut in cuts if cut <= self.cell_length]
        pieces: list[Strip] = []
        for start, end in zip([0, *edges], edges, strict=False):
            if start == 0 and end >= self._columns:
                pieces.append(SixelStrip(self._sequence, self._columns, end, self._style))
            else:
                pieces.append(Strip([Segment(" " * (end - start), self._style)], end - start))
        return pieces

    def crop(self, start: int, end: int | None = None) -> Strip:
        """A part that is drawn anew draws the picture whole: nothing lies over the rest of it."""
        end = self.cell_length if end is None else min(self.cell_length, end)
        if start <= 0:
            return self if end == self.cell_length else self._as_wide(max(end, 0))
        return Strip([Segment(" " * max(0, end - start), self._style)], max(0, end - start))

    def render(self, console: Console) -> str:
        """Blanks, the picture over them, and the cursor behind them."""
        blanks = super().render(console)
        return f"{_SAVE}{blanks}{_RESTORE}{self._sequence}{_RESTORE}\x1b[{self.cell_length}C"

    def _as_wide(self, width: int) -> Strip:
        return SixelStrip(self._sequence, self._columns, width, self._style)
