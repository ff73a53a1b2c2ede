"""Pictures as half blocks: two pixels a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from PIL.Image import Image

_UPPER = "▀"


def half_blocks(image: Image) -> list[Strip]:
    """An RGB picture of an even height, two rows of pixels a strip."""
    pixels, across = image.tobytes(), image.width
    return [_strip(pixels, across, row) for row in range(0, image.height, 2)]


def _strip(pixels: bytes, across: int, row: int) -> Strip:
    segments = []
    for column in range(across):
        upper, lower = (_color(pixels, ((row + half) * across + column) * 3) for half in (0, 1))
        segments.append(Segment(_UPPER, Style(color=upper, bgcolor=lower)))
    return Strip(segments, across)


def _color(pixels: bytes, at: int) -> Color:
    return Color.from_rgb(*pixels[at : at + 3])
