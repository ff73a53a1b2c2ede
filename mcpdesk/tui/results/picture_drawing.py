"""Pictures of strangers, looked at and shrunk within bounds. Pillow is imported at the first one.

Everything here takes its time and belongs into a thread that is not the screen's.
"""

from __future__ import annotations

import base64
import binascii
import io
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO")
"""The readers that get a stranger's bytes; some of the library's others start programs."""
MAX_BYTES = 20_000_000
MAX_PIXELS = 40_000_000
"""What a picture may unfold to."""
_ORIENTATION = 0x0112
_SIDEWAYS = frozenset({5, 6, 7, 8})
"""Orientations in which a camera lay on its side."""
_log = logging.getLogger(__name__)

Colour: TypeAlias = tuple[int, int, int]


class PictureError(Exception):
    """The bytes are no picture that can be drawn; the message says why."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a picture says of itself."""

    format: str
    width: int
    height: int
    is_animated: bool = False

    def __str__(self) -> str:
        told = f"{self.width} x {self.height} {self.format}"
        return f"{told}, the first frame of an animation" if self.is_animated else told


def unpacked(encoded: str) -> bytes:
    """The bytes of a picture that came as base64.

    Raises: PictureError.
    """
    if len(encoded) // 4 * 3 > MAX_BYTES + 3:
        raise PictureError(f"{len(encoded) // 4 * 3:,} bytes; at most {MAX_BYTES:,} are drawn")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise PictureError("not valid base64") from None


def look(data: bytes) -> Facts:
    """Size and format, the pixels not decoded.

    Raises: PictureError, also for more pixels than are drawn.
    """
    with _opened(data) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(f"{width} x {height} pixels; at most {MAX_PIXELS:,} are drawn")
        if _orientation(image) in _SIDEWAYS:
            width, height = height, width
        return Facts(str(image.format), width, height, bool(getattr(image, "is_animated", False)))


def shrunk(data: bytes, size: tuple[int, int], room: tuple[int, int], background: Colour) -> Image:
    """The picture, its first frame upright, in the given size at the top left of a larger room.

    `background` shines through it and fills the rest.

    Raises: PictureError.
    """
    from PIL import Image, ImageOps

    with _opened(data) as image:
        longest = max(size)
        image.draft("RGB", (longest, longest))  # a JPEG need not unfold any further
        image.load()
        plain = _plain(image)
        if (factor := max(image.size) // (2 * longest)) > 1:
            plain = plain.reduce(factor)
        upright = ImageOps.exif_transpose(plain) if _orientation(image) > 1 else plain
        grows = max(upright.size) < longest
        method = Image.Resampling.NEAREST if grows else Image.Resampling.BICUBIC
        canvas = Image.new("RGBA", room, (*background, 255))
        canvas.alpha_composite(upright.resize(size, method).convert("RGBA"))
        return canvas.convert("RGB")


def _plain(image: Image) -> Image:
    """In a mode that can be resized and has the colours the eye sees."""
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda level: level * (1 / 256)).convert("L")
    return image.convert("RGBA")


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # odd metadata is no reason not to draw
        return 1


@contextmanager
def _opened(data: bytes) -> Iterator[Image]:
    """Whatever a reader stumbles over in a stranger's bytes is told in one way."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # we look ourselves, before anything unfolds
    warnings.filterwarnings("ignore", module=r"PIL\.")  # of odd metadata
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            yield image
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError(f"not one of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders raise whatever they like at bytes of strangers
        _log.debug("a picture that cannot be read", exc_info=True)
        raise PictureError(f"broken: {error}") from error


_PLACEHOLDER = "\U0010eeee"
_CHUNK = 4_096
"""Characters of a payload in one message."""
_RUNS = """
305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9
5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d
73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87
135d-135f 17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc
1dd1-1de6 1dfe 20d0-20d1 20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d
a6f0-a6f1 a8e0-a8f1 aab0 aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad
1d242-1d244
"""
"""The combining characters that count rows and columns, in hex, as runs from and to."""


def _numbers() -> list[str]:
    ends = [run.split("-") for run in _RUNS.split()]
    return [chr(code) for run in ends for code in range(int(run[0], 16), int(run[-1], 16) + 1)]


NUMBERS = _numbers()
MOST_CELLS = len(NUMBERS)
"""Rows, and columns, of one picture."""


def transmission(image: Image, number: int, columns: int, rows: int) -> str:
    """The messages that give the terminal a picture under a number below 2**24, to fill that many cells."""
    packed = io.BytesIO()
    image.save(packed, "PNG", compress_level=2)
    payload = base64.b64encode(packed.getvalue()).decode()
    pieces = [payload[start : start + _CHUNK] for start in range(0, len(payload), _CHUNK)]
    sent = [
        _message(f"i={number},f=100,q=2,m={int(left > 0)}", piece)
        for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True)
    ]
    return "".join(sent) + _message(f"a=p,U=1,i={number},c={columns},r={rows},q=2")


def deletion(number: int) -> str:
    """The message that lets the terminal forget a picture."""
    return _message(f"a=d,d=I,i={number},q=2")


def placeholders(number: int, columns: int, rows: int) -> list[Strip]:
    """The cells that show a picture: its number is their colour, combining characters tell their place."""
    style = Style(color=Color.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255))
    lines = ("".join(_PLACEHOLDER + row + column for column in NUMBERS[:columns]) for row in NUMBERS[:rows])
    return [Strip([Segment(line, style)], columns) for line in lines]


def _message(keys: str, payload: str = "") -> str:
    return f"\x1b_G{keys}{';' * bool(payload)}{payload}\x1b\\"


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
