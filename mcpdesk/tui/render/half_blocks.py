"""Pictures as half blocks: two pixels a cell. Pillow is imported at the first picture."""

from __future__ import annotations

import io
import warnings

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

MAX_PIXELS = 40_000_000
"""Pictures with more are described, not decoded."""
_UPPER = "▀"


class PictureError(Exception):
    """The bytes are no picture that can be drawn; the message says why."""


def picture_size(data: bytes) -> tuple[int, int, str]:
    """Width, height and format, without decoding the pixels.

    Raises: PictureError.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                return image.width, image.height, image.format or ""
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PictureError(str(error)) from None


def draw(data: bytes, columns: int, rows: int) -> list[Strip]:
    """The picture in at most `columns` by `rows` cells, its proportions kept; never larger than it is.

    Raises: PictureError.
    """
    from PIL import Image

    width, height, _ = picture_size(data)
    if width * height > MAX_PIXELS:
        raise PictureError(f"{width} x {height} pixels are too many to draw")
    scale = min(columns / width, 2 * rows / height, max(1.0, 16 / max(width, height)))
    across, down = max(1, round(width * scale)), max(2, round(height * scale / 2) * 2)
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.draft("RGB", (across, down))
            shrunk = image.convert("RGBA").resize((across, down))
    except (OSError, ValueError, SyntaxError) as error:
        raise PictureError(str(error)) from None
    pixels = shrunk.tobytes()
    return [_strip(pixels, across, row) for row in range(0, down, 2)]


def _strip(pixels: bytes, across: int, row: int) -> Strip:
    segments = []
    for column in range(across):
        upper, lower = (_color(pixels, ((row + half) * across + column) * 4) for half in (0, 1))
        segments.append(Segment(_UPPER, Style(color=upper, bgcolor=lower)))
    return Strip(segments, across)


def _color(pixels: bytes, at: int) -> Color:
    red, green, blue, alpha = pixels[at : at + 4]
    return Color.from_rgb(red * alpha // 255, green * alpha // 255, blue * alpha // 255)
