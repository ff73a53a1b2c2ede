"""Pictures in results: decoded within limits, and drawn by the best method the terminal supports.

The methods are half blocks, sixels and kitty graphics. Decoding and drawing are slow and run on a worker
thread. Pillow is imported with the first picture.

Source of kitty's protocol (direct transmission, Unicode placeholders):
https://sw.kovidgoyal.net/kitty/graphics-protocol/.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import randrange
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from mcpdesk.features.pictures.graphics_query import graphics_of
from mcpdesk.features.pictures.terminal_graphics import Graphics, GraphicsKind
from mcpdesk.tools.icon_files import check_icon
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.terminal import driver_of

if TYPE_CHECKING:
    from PIL.Image import Image

_log = logging.getLogger(__name__)
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO")
"""Supported formats. Other formats are excluded, because some readers of Pillow start programs."""
INSTALL = "pip install 'mcpdesk[tools]'"
MAX_BYTES = 20_000_000
"""Maximum size of a picture in bytes, before it is decoded."""
MAX_PIXELS = 40_000_000
"""Maximum number of pixels of a decoded picture."""
_ORIENTATION_TAG = 0x0112
"""Number of the EXIF tag with the orientation."""
_ROTATED_ORIENTATIONS = frozenset({5, 6, 7, 8})
"""EXIF orientations with width and height exchanged."""

Colour: TypeAlias = tuple[int, int, int]


class PictureError(Exception):
    """The bytes cannot be drawn as a picture. The message is the reason."""


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """Format and size of a picture."""

    format: str
    width: int
    height: int
    is_animated: bool = False

    def __str__(self) -> str:
        text = f"{self.width} x {self.height} {self.format}"
        return f"{text}, the first frame of an animation" if self.is_animated else text


def unpacked(encoded: str) -> bytes:
    """Decode a picture from base64.

    Raises: PictureError.
    """
    if len(encoded) // 4 * 3 > MAX_BYTES + 3:
        raise PictureError(f"{len(encoded) // 4 * 3:,} bytes; at most {MAX_BYTES:,} are allowed")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise PictureError("not valid base64") from None


def examine(data: bytes) -> PictureFacts:
    """Return format and size, without decoding the pixels.

    Raises: PictureError, also for more than `MAX_PIXELS`.
    """
    with _opened(data) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(f"{width} x {height} pixels; at most {MAX_PIXELS:,} are allowed")
        if _orientation(image) in _ROTATED_ORIENTATIONS:
            width, height = height, width
        return PictureFacts(str(image.format), width, height, bool(getattr(image, "is_animated", False)))


def scaled(data: bytes, size: tuple[int, int], max_size: tuple[int, int], background: Colour) -> Image:
    """Return the first frame, upright and scaled to `size`, at the top left of an image of `max_size`.

    The colour `background` fills the remaining area and transparent pixels. Raises: PictureError.
    """
    from PIL import Image, ImageOps

    with _opened(data) as image:
        longer_side = max(size)
        image.draft("RGB", (longer_side, longer_side))  # decodes a JPEG in a size not larger than needed
        image.load()
        converted = _resizable(image)
        if (factor := max(image.size) // (2 * longer_side)) > 1:
            converted = converted.reduce(factor)
        upright = ImageOps.exif_transpose(converted) if _orientation(image) > 1 else converted
        is_enlarged = max(upright.size) < longer_side
        method = Image.Resampling.NEAREST if is_enlarged else Image.Resampling.BICUBIC
        canvas = Image.new("RGBA", max_size, (*background, 255))
        canvas.alpha_composite(upright.resize(size, method).convert("RGBA"))
        return canvas.convert("RGB")


def _resizable(image: Image) -> Image:
    """Convert the image to a mode that can be resized."""
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda level: level * (1 / 256)).convert("L")
    return image.convert("RGBA")


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # invalid metadata must not prevent drawing
        return 1


@contextmanager
def _opened(data: bytes) -> Iterator[Image]:
    """Open a picture. Every exception of a reader becomes a PictureError."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise PictureError(f"drawing needs pillow, which is not installed: {INSTALL}") from None

    warnings.filterwarnings("ignore", module=r"PIL\.")  # warnings about metadata
    try:
        check_icon(data, MAX_PIXELS)  # an ICO file has several images
    except ValueError as error:
        raise PictureError(str(error)) from None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            yield image
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError(f"not one of {', '.join(FORMATS)}") from None
    except Image.DecompressionBombError:  # Pillow has a higher limit of its own
        raise PictureError(f"too many pixels; at most {MAX_PIXELS:,} are allowed") from None
    except Exception as error:  # decoders raise any exception for untrusted bytes
        _log.debug("reading a picture failed", exc_info=True)
        raise PictureError(f"broken: {error}") from error


_UPPER_HALF_BLOCK = "▀"


def half_blocks(image: Image) -> list[Strip]:
    """Return the lines of an RGB picture of even height. Each cell shows two pixels, one above the other."""
    pixels, width = image.tobytes(), image.width
    return [_strip(pixels, width, row) for row in range(0, image.height, 2)]


def _strip(pixels: bytes, width: int, row: int) -> Strip:
    segments = []
    for column in range(width):
        upper, lower = (_color(pixels, ((row + half) * width + column) * 3) for half in (0, 1))
        segments.append(Segment(_UPPER_HALF_BLOCK, Style(color=upper, bgcolor=lower)))
    return Strip(segments, width)


def _color(pixels: bytes, offset: int) -> Color:
    return Color.from_rgb(*pixels[offset : offset + 3])


_SAVE, _RESTORE = "\x1b7", "\x1b8"
"""Save and restore the position of the cursor."""
_BAND_HEIGHT = 6
"""Number of pixel rows in one sixel."""
_SIXEL_CHARACTERS = bytes(range(63, 127)) + bytes(192)
"""Table from the bits of a sixel to its character."""
_REPETITION = re.compile(rb"(.)\1{3,}")


def sixel_rows(image: Image, cell_height: int) -> Iterator[str]:
    """Yield the sequences that draw an RGB picture: one for each row of cells, from the top.

    Sixels do not belong to cells, and text that is written over sixels erases them. Each row is therefore
    drawn separately.
    """
    from PIL.Image import Quantize

    quantized = image.quantize(colors=256, method=Quantize.FASTOCTREE)
    palette = quantized.getpalette() or []
    pixels = quantized.tobytes()
    lines = [pixels[start : start + image.width] for start in range(0, len(pixels), image.width)]
    for top in range(0, image.height, cell_height):
        yield _sixels(lines[top : top + cell_height], palette)


def _sixels(lines: Sequence[bytes], palette: Sequence[int]) -> str:
    """Return lines of colour numbers as one sixel picture.

    `palette` has the red, green and blue value of each number.
    """
    percentages = [round(level / 2.55) for level in palette]
    colours = "".join(
        "#{};2;{};{};{}".format(number, *percentages[3 * number : 3 * number + 3])
        for number in sorted(set().union(*lines))
    )
    bands = (_band(lines[top : top + _BAND_HEIGHT]) for top in range(0, len(lines), _BAND_HEIGHT))
    return f'\x1bP0;0;0q"1;1;{len(lines[0])};{len(lines)}{colours}{"-".join(bands)}\x1b\\'


def _band(lines: Sequence[bytes]) -> str:
    """Encode up to six lines: a bar of the most frequent colour, and over it each other colour."""
    (background, _), *others = Counter(b"".join(lines)).most_common()
    bar = f"#{background}!{len(lines[0])}{chr(62 + (1 << len(lines)))}"
    return "$".join([bar, *(f"#{colour}{_one_colour(lines, colour)}" for colour, _ in others)])


def _one_colour(lines: Sequence[bytes], colour: int) -> str:
    """Encode the pixels of one colour in up to six lines."""
    table = bytes(colour) + b"\x01" + bytes(255 - colour)  # 1 for the colour, 0 for all others
    bits = sum(int.from_bytes(line.translate(table)) << row for row, line in enumerate(lines))
    sixels = bits.to_bytes(len(lines[0])).translate(_SIXEL_CHARACTERS).rstrip(b"?")
    return _REPETITION.sub(lambda match: b"!%d%b" % (len(match[0]), match[1]), sixels).decode()


class SixelStrip(Strip):
    """Blank strip with a row of a picture over its first `columns` cells."""

    __slots__ = ("_columns", "_sequence", "_style")

    def __init__(self, sequence: str, columns: int, width: int, style: Style) -> None:
        super().__init__([Segment(" " * width, style)], width)
        self._sequence = sequence
        self._columns = columns
        self._style = style

    def divide(self, cuts: Iterable[int]) -> list[Strip]:
        """Divide the strip. The first part keeps the picture if it is wide enough. The others are blank."""
        edges = [cut for cut in cuts if cut <= self.cell_length]
        parts: list[Strip] = []
        for start, end in zip([0, *edges], edges, strict=False):
            if start == 0 and end >= self._columns:
                parts.append(SixelStrip(self._sequence, self._columns, end, self._style))
            else:
                parts.append(Strip([Segment(" " * (end - start), self._style)], end - start))
        return parts

    def crop(self, start: int, end: int | None = None) -> Strip:
        """Crop the strip. A part that begins at the left edge draws the complete picture.

        Textual crops a strip to repaint a part of it. It divides a strip that other widgets cover.
        """
        end = self.cell_length if end is None else min(self.cell_length, end)
        if start <= 0:
            return self if end == self.cell_length else self._as_wide(max(end, 0))
        return Strip([Segment(" " * max(0, end - start), self._style)], max(0, end - start))

    def render(self, console: Console) -> str:
        """Return blanks, the picture over the blanks, then a move of the cursor to the end of the blanks."""
        blanks = super().render(console)
        return f"{_SAVE}{blanks}{_RESTORE}{self._sequence}{_RESTORE}\x1b[{self.cell_length}C"

    def _as_wide(self, width: int) -> Strip:
        return SixelStrip(self._sequence, self._columns, width, self._style)


_PLACEHOLDER = "\U0010eeee"
_MAX_PAYLOAD_LENGTH = 4_096
"""Maximum number of characters of a payload in one message."""
_DIACRITICS = """
305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9
5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d
73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87
135d-135f 17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc
1dd1-1de6 1dfe 20d0-20d1 20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d
a6f0-a6f1 a8e0-a8f1 aab0 aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad
1d242-1d244
"""
"""Combining characters for the numbers of rows and columns, as ranges of hex code points."""


def _number_characters() -> list[str]:
    ranges = [text.split("-") for text in _DIACRITICS.split()]
    return [chr(code) for ends in ranges for code in range(int(ends[0], 16), int(ends[-1], 16) + 1)]


NUMBER_CHARACTERS = _number_characters()
"""Combining character of each number."""
MAX_CELLS = len(NUMBER_CHARACTERS)
"""Maximum number of rows and of columns of one picture."""


def transmission(image: Image, number: int, columns: int, rows: int) -> str:
    """Return the messages that send a picture to the terminal and scale the picture to the cells.

    `number` identifies the picture. It must be below 2**24.
    """
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=2)
    payload = base64.b64encode(buffer.getvalue()).decode()
    parts = [
        payload[start : start + _MAX_PAYLOAD_LENGTH] for start in range(0, len(payload), _MAX_PAYLOAD_LENGTH)
    ]
    messages = [
        _message(f"i={number},f=100,q=2,m={int(position < len(parts))}", part)
        for position, part in enumerate(parts, 1)
    ]
    return "".join(messages) + _message(f"a=p,U=1,i={number},c={columns},r={rows},q=2")


def deletion(number: int) -> str:
    """Return the message that deletes a picture in the terminal."""
    return _message(f"a=d,d=I,i={number},q=2")


def placeholders(number: int, columns: int, rows: int) -> list[Strip]:
    """Return cells that show a picture.

    The colour of a cell encodes the number of the picture. Combining characters encode row and column.
    """
    style = Style(color=Color.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255))
    lines = (
        "".join(_PLACEHOLDER + row + column for column in NUMBER_CHARACTERS[:columns])
        for row in NUMBER_CHARACTERS[:rows]
    )
    return [Strip([Segment(line, style)], columns) for line in lines]


def _message(keys: str, payload: str = "") -> str:
    return f"\x1b_G{keys}{';' * bool(payload)}{payload}\x1b\\"


MIN_ROWS = 12
"""Number of rows that a picture may have even in a pane with fewer rows. In a taller pane, it may have all
rows except `_TEXT_ROWS`.
"""
_TEXT_ROWS = 3
"""Number of rows left for text: the line of facts, and the tool's text before the picture."""
MAX_SCROLLED_SIXELS = 128_000
"""A picture whose sixels have more characters is not drawn during scrolling, because terminals draw sixels
slowly.
"""
SCROLL_END_S = 0.1
"""Seconds without a movement of a picture after which scrolling has ended."""
_T = TypeVar("_T")
_painter = ThreadPoolExecutor(1, thread_name_prefix="mcpdesk-picture")
"""Executor with a single thread, so that one picture at a time is decoded."""
_numbers: Iterator[int] = count(randrange(1 << 8, 1 << 23))
"""Numbers for pictures in the terminal's memory. The first is random, because other programs share it."""


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Parameters of a drawing. A picture is drawn again when one of them changes."""

    graphics: Graphics
    columns: int
    rows: int
    background: Colour


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Picture as lines of the screen."""

    parameters: _Parameters
    strips: list[Strip] = field(default_factory=list)
    """Lines of half blocks, or of kitty's placeholders."""
    sixels: list[str] = field(default_factory=list)
    """Sequences that draw the picture as sixels, one for each line."""
    number: int = 0
    """Number of the picture in the terminal. 0 if the terminal does not store it."""
    transmission: str = ""
    """Messages that send the picture to the terminal."""


class PictureView(Widget):
    """Widget with a line of facts, and below it the picture, or the reason why it cannot be drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"picture--note", "picture--trouble"}
    DEFAULT_CSS = """
    PictureView { width: 1fr; height: auto; }
    PictureView > .picture--note { color: $text-muted; }
    PictureView > .picture--trouble { color: $text-error; }
    """

    def __init__(self, encoded: str, note: str = "") -> None:
        """Create the view. `encoded` is base64, `note` the description of the picture in the result."""
        super().__init__()
        self._encoded = encoded
        self._note = note
        self._data = b""
        self._facts: PictureFacts | None = None
        self._error_text = ""
        self._graphics = Graphics()
        self._cells = (0, 0)
        """Columns and rows of the picture."""
        self._latest_parameters: _Parameters | None = None
        self._drawing: _Drawing | None = None
        self._regions: tuple[Region, Region] | None = None
        """Regions of the widget and of its visible part, when a large picture was last drawn."""
        self._scroll_timer: Timer | None = None

    def on_mount(self) -> None:
        self.run_worker(self._open(), group="open")

    def on_unmount(self) -> None:
        self._delete(self._drawing)
        self._latest_parameters = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self._error_text:
            return 2
        if self._facts is None or self._graphics.kind is GraphicsKind.WORDS:
            return 1
        columns, rows = max(1, width), max(MIN_ROWS, container.height - _TEXT_ROWS)
        if self._graphics.kind is GraphicsKind.KITTY:
            columns, rows = min(columns, MAX_CELLS), min(rows, MAX_CELLS)
        self._cells = self._graphics.cells(self._facts.width, self._facts.height, columns, rows)
        return 1 + self._cells[1]

    def render_line(self, y: int) -> Strip:
        """Draw the line of facts or a line of the picture. If the drawing is missing, start it."""
        width, style = self.size.width, self.rich_style
        if y == 0:
            return _text_line(self._facts_line(), width, style + self._partial("picture--note"))
        if self._error_text:
            return _text_line(
                f"✗ {self._error_text} · w saves it", width, style + self._partial("picture--trouble")
            )
        drawing = self._newest_drawing()
        if drawing is None or y > len(drawing.strips):
            return Strip.blank(width, style)
        return drawing.strips[y - 1].adjust_cell_length(width, style)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines with sixels as separate strips, because they cannot be cut and styled like text."""
        if self._graphics.kind is not GraphicsKind.SIXEL or self._error_text or self._facts is None:
            return super().render_lines(crop)
        drawing = self._newest_drawing()
        if drawing is not None:
            is_cut = crop.x > 0 or drawing.parameters.columns > crop.width
            if is_cut or self._is_scrolling(drawing, crop):
                drawing = None
        return [self._sixel_line(y, crop, drawing) for y in crop.line_range]

    def _sixel_line(self, y: int, crop: Region, drawing: _Drawing | None) -> Strip:
        if y == 0:
            return self.render_line(0).crop(crop.x, crop.right)
        if drawing is None or y > len(drawing.sixels):
            return Strip.blank(crop.width, self.rich_style)
        return SixelStrip(drawing.sixels[y - 1], drawing.parameters.columns, crop.width, self.rich_style)

    def _is_scrolling(self, drawing: _Drawing, crop: Region) -> bool:
        """Return True if a large picture moved a moment ago. It is drawn when it stays in place."""
        if sum(map(len, drawing.sixels)) < MAX_SCROLLED_SIXELS:
            return False
        regions = (self.region, crop)
        if regions != self._regions:
            self._regions = regions
            if self._scroll_timer is not None:
                self._scroll_timer.stop()
            self._scroll_timer = self.set_timer(SCROLL_END_S, self._stop_scrolling)
        return self._scroll_timer is not None

    def _stop_scrolling(self) -> None:
        self._scroll_timer = None
        self.refresh()

    def _newest_drawing(self) -> _Drawing | None:
        """Return the last drawing. If its parameters changed, start a new drawing."""
        red, green, blue = self.background_colors[1].rgb
        parameters = _Parameters(self._graphics, *self._cells, (red, green, blue))
        if self._facts is not None and parameters.columns and parameters != self._latest_parameters:
            self._latest_parameters = parameters
            self.call_later(self._begin, parameters)
        return self._drawing

    def _begin(self, parameters: _Parameters) -> None:
        self.run_worker(self._draw(parameters), group="draw", exclusive=True)

    async def _open(self) -> None:
        query = asyncio.create_task(graphics_of(self.app))
        try:
            self._data, self._facts = await _in_thread(_decode, self._encoded)
        except PictureError as error:
            self._error_text = str(error)
        self._graphics = await query
        self.refresh(layout=True)

    async def _draw(self, parameters: _Parameters) -> None:
        try:
            drawing = await _in_thread(
                _draw, self._data, self._facts, parameters, lambda: parameters == self._latest_parameters
            )
        except PictureError as error:
            self._error_text = str(error)
            self.refresh(layout=True)
            return
        if parameters != self._latest_parameters or drawing is None:
            return
        driver = driver_of(self.app)
        if drawing.transmission and driver is not None:
            driver.write(drawing.transmission)
        self._delete(self._drawing)
        self._drawing = drawing
        self.refresh()

    def _delete(self, drawing: _Drawing | None) -> None:
        driver = driver_of(self.app)
        if drawing is not None and drawing.number and driver is not None:
            driver.write(deletion(drawing.number))

    def _facts_line(self) -> str:
        facts = "" if self._error_text else "…"
        if self._facts is not None:
            facts = str(self._facts)
        is_undrawn = self._graphics.kind is GraphicsKind.WORDS and self._facts is not None
        undrawn_reason = "not drawn: the terminal has no colours" if is_undrawn else ""
        return " · ".join(part for part in (facts, undrawn_reason, self._note) if part)

    def _partial(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


def _text_line(text: str, width: int, style: Style) -> Strip:
    line = one_line(text, max(1, width))
    return Strip([Segment(line, style)]).adjust_cell_length(width, style)


async def _in_thread(work: Callable[..., _T], *arguments: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_painter, work, *arguments)


def _decode(encoded: str) -> tuple[bytes, PictureFacts]:
    data = unpacked(encoded)
    return data, examine(data)


def _draw(
    data: bytes, facts: PictureFacts, parameters: _Parameters, is_latest: Callable[[], bool]
) -> _Drawing | None:
    """Return the drawing, or None if a newer drawing is needed. Raises: PictureError."""
    if not is_latest():
        return None
    graphics, columns, rows = parameters.graphics, parameters.columns, parameters.rows
    size = graphics.within(facts.width, facts.height, columns, rows)
    image = scaled(data, size, graphics.pixels(columns, rows), parameters.background)
    match graphics.kind:
        case GraphicsKind.SIXEL:
            sixels = []
            for row in sixel_rows(image, graphics.cell[1]):
                if not is_latest():
                    return None
                sixels.append(row)
            return _Drawing(parameters, sixels=sixels)
        case GraphicsKind.KITTY:
            number = next(_numbers)
            messages = transmission(image, number, columns, rows)
            return _Drawing(
                parameters, placeholders(number, columns, rows), number=number, transmission=messages
            )
        case _:
            return _Drawing(parameters, half_blocks(image))
