"""A picture in a result, drawn with what the terminal knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import randrange
from typing import ClassVar, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.results.picture_drawing import (
    MOST_CELLS,
    Colour,
    Facts,
    PictureError,
    SixelStrip,
    deletion,
    half_blocks,
    look,
    placeholders,
    shrunk,
    sixel_rows,
    transmission,
    unpacked,
)
from mcpdesk.tui.results.terminal_graphics import Graphics, Kind
from mcpdesk.tui.terminal import driver_of, graphics_of

LEAST_ROWS = 12
"""A pane lower than this is scrolled; in a higher one the picture is seen whole."""
_WORDS = 3
"""Rows left to the words about a picture: its own, and what a tool says in front of it."""
HEAVY = 128_000
"""Characters of sixels that are not written while the picture moves: a terminal takes its time over them."""
STILL_S = 0.1
_T = TypeVar("_T")
_painter = ThreadPoolExecutor(1, thread_name_prefix="mcpdesk-picture")
"""One picture at a time unfolds to all its pixels."""
_numbers: Iterator[int] = count(randrange(1 << 8, 1 << 23))
"""Of pictures in the terminal's memory; programs that share it begin somewhere else."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """How a picture is to be drawn: one that was drawn otherwise is drawn again."""

    graphics: Graphics
    columns: int
    rows: int
    background: Colour


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A picture as lines of the screen."""

    frame: _Frame
    strips: list[Strip] = field(default_factory=list)
    """Of half blocks and of kitty's placeholders."""
    sixels: list[str] = field(default_factory=list)
    number: int = 0
    """What the terminal knows it as; 0: it does not."""
    sent: str = ""
    """What gives it to the terminal."""


class Picture(Widget):
    """What it is, and below that the picture: as large as can be seen at once, or a word why not."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"picture--note", "picture--trouble"}
    DEFAULT_CSS = """
    Picture { width: 1fr; height: auto; }
    Picture > .picture--note { color: $text-muted; }
    Picture > .picture--trouble { color: $text-error; }
    """

    def __init__(self, encoded: str, note: str = "") -> None:
        """`encoded` is base64, `note` what the result says about it."""
        super().__init__()
        self._encoded = encoded
        self._note = note
        self._data = b""
        self._facts: Facts | None = None
        self._trouble = ""
        self._graphics = Graphics()
        self._cells = (0, 0)
        self._wanted: _Frame | None = None
        self._drawing: _Drawing | None = None
        self._place: tuple[Region, Region] | None = None
        self._moving: Timer | None = None

    def on_mount(self) -> None:
        """Look at it."""
        self.run_worker(self._open(), group="open")

    def on_unmount(self) -> None:
        """The terminal may forget it."""
        self._forget(self._drawing)
        self._wanted = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line of words, and as many rows as the picture takes."""
        if self._trouble:
            return 2
        if self._facts is None or self._graphics.kind is Kind.WORDS:
            return 1
        columns, rows = max(1, width), max(LEAST_ROWS, container.height - _WORDS)
        if self._graphics.kind is Kind.KITTY:
            columns, rows = min(columns, MOST_CELLS), min(rows, MOST_CELLS)
        self._cells = self._graphics.cells(self._facts.width, self._facts.height, columns, rows)
        return 1 + self._cells[1]

    def render_line(self, y: int) -> Strip:
        """A line of words or of the picture; asks for it to be drawn when that is not yet done."""
        width, style = self.size.width, self.rich_style
        if y == 0:
            return _words(self._told(), width, style + self._partial("picture--note"))
        if self._trouble:
            return _words(f"✗ {self._trouble} · x saves it", width, style + self._partial("picture--trouble"))
        drawing = self._current()
        if drawing is None or y > len(drawing.strips):
            return Strip.blank(width, style)
        return drawing.strips[y - 1].adjust_cell_length(width, style)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Sixels are no text: they go around what is done to text."""
        if self._graphics.kind is not Kind.SIXEL or self._trouble or self._facts is None:
            return super().render_lines(crop)
        drawing = self._current()
        if (
            drawing is None
            or crop.x > 0
            or drawing.frame.columns > crop.width
            or self._is_moving(drawing, crop)
        ):
            drawing = None
        return [self._sixel_line(y, crop, drawing) for y in crop.line_range]

    def _sixel_line(self, y: int, crop: Region, drawing: _Drawing | None) -> Strip:
        if y == 0:
            return self.render_line(0).crop(crop.x, crop.right)
        if drawing is None or y > len(drawing.sixels):
            return Strip.blank(crop.width, self.rich_style)
        return SixelStrip(drawing.sixels[y - 1], drawing.frame.columns, crop.width, self.rich_style)

    def _is_moving(self, drawing: _Drawing, crop: Region) -> bool:
        """Whether a heavy picture was somewhere else a moment ago; it is drawn once it stands still."""
        if sum(map(len, drawing.sixels)) < HEAVY:
            return False
        place = (self.region, crop)
        if place != self._place:
            self._place = place
            if self._moving is not None:
                self._moving.stop()
            self._moving = self.set_timer(STILL_S, self._stand)
        return self._moving is not None

    def _stand(self) -> None:
        self._moving = None
        self.refresh()

    def _current(self) -> _Drawing | None:
        """The drawing there is; another is begun when that is not as it should be."""
        red, green, blue = self.background_colors[1].rgb
        frame = _Frame(self._graphics, *self._cells, (red, green, blue))
        if self._facts is not None and frame.columns and frame != self._wanted:
            self._wanted = frame
            self.call_later(self._begin, frame)
        return self._drawing

    def _begin(self, frame: _Frame) -> None:
        self.run_worker(self._draw(frame), group="draw", exclusive=True)

    async def _open(self) -> None:
        asking = asyncio.create_task(graphics_of(self.app))
        try:
            self._data, self._facts = await _painted(_unpacked, self._encoded)
        except PictureError as error:
            self._trouble = str(error)
        self._graphics = await asking
        self.refresh(layout=True)

    async def _draw(self, frame: _Frame) -> None:
        try:
            drawing = await _painted(_draw, self._data, self._facts, frame, lambda: frame == self._wanted)
        except PictureError as error:
            self._trouble = str(error)
            self.refresh(layout=True)
            return
        if frame != self._wanted or drawing is None:
            return
        driver = driver_of(self.app)
        if drawing.sent and driver is not None:
            driver.write(drawing.sent)
        self._forget(self._drawing)
        self._drawing = drawing
        self.refresh()

    def _forget(self, drawing: _Drawing | None) -> None:
        driver = driver_of(self.app)
        if drawing is not None and drawing.number and driver is not None:
            driver.write(deletion(drawing.number))

    def _told(self) -> str:
        facts = f"{self._facts}" if self._facts else "" if self._trouble else "…"
        undrawn = "not drawn without colour" if self._graphics.kind is Kind.WORDS and self._facts else ""
        return " · ".join(part for part in (facts, undrawn, self._note) if part)

    def _partial(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


def _words(text: str, width: int, style: Style) -> Strip:
    line = one_line(text, max(1, width))
    return Strip([Segment(line, style)]).adjust_cell_length(width, style)


async def _painted(work: Callable[..., _T], *given: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_painter, partial(work, *given))


def _unpacked(encoded: str) -> tuple[bytes, Facts]:
    data = unpacked(encoded)
    return data, look(data)


def _draw(data: bytes, facts: Facts, frame: _Frame, is_wanted: Callable[[], bool]) -> _Drawing | None:
    """The drawing, or None when nobody wants it any more. Raises: PictureError."""
    if not is_wanted():
        return None
    graphics, columns, rows = frame.graphics, frame.columns, frame.rows
    size = graphics.within(facts.width, facts.height, columns, rows)
    image = shrunk(data, size, graphics.pixels(columns, rows), frame.background)
    match graphics.kind:
        case Kind.SIXEL:
            sixels = []
            for row in sixel_rows(image, graphics.cell[1]):
                if not is_wanted():
                    return None
                sixels.append(row)
            return _Drawing(frame, sixels=sixels)
        case Kind.KITTY:
            number = next(_numbers)
            sent = transmission(image, number, columns, rows)
            return _Drawing(frame, placeholders(number, columns, rows), number=number, sent=sent)
        case _:
            return _Drawing(frame, half_blocks(image))
