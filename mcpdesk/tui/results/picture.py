"""A picture in a result, drawn by the best means that the terminal has."""

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
    MAX_CELLS,
    Colour,
    PictureError,
    PictureFacts,
    SixelStrip,
    deletion,
    examine,
    half_blocks,
    placeholders,
    shrunk,
    sixel_rows,
    transmission,
    unpacked,
)
from mcpdesk.tui.results.terminal_graphics import Graphics, GraphicsKind
from mcpdesk.tui.terminal import driver_of, graphics_of

LEAST_ROWS = 12
"""Rows a picture may always take; in a pane that is higher it may fill the pane."""
_WORDS = 3
"""Rows left for text: the line of the picture itself, and what a tool says before it."""
HEAVY = 128_000
"""Characters of sixels above which a picture is not drawn while it scrolls, because terminals are slow."""
STILL_S = 0.1
"""Seconds after which a picture no longer counts as scrolling."""
_T = TypeVar("_T")
_painter = ThreadPoolExecutor(1, thread_name_prefix="mcpdesk-picture")
"""A single thread, so that one picture at a time is decoded."""
_numbers: Iterator[int] = count(randrange(1 << 8, 1 << 23))
"""Numbers of pictures in the memory of the terminal; random, because other programs share it."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a drawing depends on: a picture is drawn again when one of these changes."""

    graphics: Graphics
    columns: int
    rows: int
    background: Colour


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A picture as lines of the screen."""

    frame: _Frame
    strips: list[Strip] = field(default_factory=list)
    """Lines of half blocks, or of kitty's placeholders."""
    sixels: list[str] = field(default_factory=list)
    """Sequences, one for each line."""
    number: int = 0
    """The number of the picture in the terminal; 0: the terminal has none."""
    sent: str = ""
    """The messages that send it to the terminal."""


class PictureView(Widget):
    """A line of facts, and below it the picture as large as fits, or the reason why it cannot be drawn."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"picture--note", "picture--trouble"}
    DEFAULT_CSS = """
    PictureView { width: 1fr; height: auto; }
    PictureView > .picture--note { color: $text-muted; }
    PictureView > .picture--trouble { color: $text-error; }
    """

    def __init__(self, encoded: str, note: str = "") -> None:
        """`encoded` is base64; `note` is what the result says about the picture."""
        super().__init__()
        self._encoded = encoded
        self._note = note
        self._data = b""
        self._facts: PictureFacts | None = None
        self._trouble = ""
        self._graphics = Graphics()
        self._cells = (0, 0)
        self._wanted: _Frame | None = None
        self._drawing: _Drawing | None = None
        self._place: tuple[Region, Region] | None = None
        self._moving: Timer | None = None

    def on_mount(self) -> None:
        self.run_worker(self._open(), group="open")

    def on_unmount(self) -> None:
        self._delete(self._drawing)
        self._wanted = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self._trouble:
            return 2
        if self._facts is None or self._graphics.kind is GraphicsKind.WORDS:
            return 1
        columns, rows = max(1, width), max(LEAST_ROWS, container.height - _WORDS)
        if self._graphics.kind is GraphicsKind.KITTY:
            columns, rows = min(columns, MAX_CELLS), min(rows, MAX_CELLS)
        self._cells = self._graphics.cells(self._facts.width, self._facts.height, columns, rows)
        return 1 + self._cells[1]

    def render_line(self, y: int) -> Strip:
        """The line of facts or a line of the picture; a drawing that is missing is begun."""
        width, style = self.size.width, self.rich_style
        if y == 0:
            return _text_line(self._facts_line(), width, style + self._partial("picture--note"))
        if self._trouble:
            return _text_line(
                f"✗ {self._trouble} · x saves it", width, style + self._partial("picture--trouble")
            )
        drawing = self._current()
        if drawing is None or y > len(drawing.strips):
            return Strip.blank(width, style)
        return drawing.strips[y - 1].adjust_cell_length(width, style)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines with sixels are strips of their own: they are not text that can be cut and styled."""
        if self._graphics.kind is not GraphicsKind.SIXEL or self._trouble or self._facts is None:
            return super().render_lines(crop)
        drawing = self._current()
        if drawing is not None:
            is_cut = crop.x > 0 or drawing.frame.columns > crop.width
            if is_cut or self._is_scrolling(drawing, crop):
                drawing = None
        return [self._sixel_line(y, crop, drawing) for y in crop.line_range]

    def _sixel_line(self, y: int, crop: Region, drawing: _Drawing | None) -> Strip:
        if y == 0:
            return self.render_line(0).crop(crop.x, crop.right)
        if drawing is None or y > len(drawing.sixels):
            return Strip.blank(crop.width, self.rich_style)
        return SixelStrip(drawing.sixels[y - 1], drawing.frame.columns, crop.width, self.rich_style)

    def _is_scrolling(self, drawing: _Drawing, crop: Region) -> bool:
        """Whether a large picture was at another place a moment ago; it is drawn once it stays."""
        if sum(map(len, drawing.sixels)) < HEAVY:
            return False
        place = (self.region, crop)
        if place != self._place:
            self._place = place
            if self._moving is not None:
                self._moving.stop()
            self._moving = self.set_timer(STILL_S, self._stop_scrolling)
        return self._moving is not None

    def _stop_scrolling(self) -> None:
        self._moving = None
        self.refresh()

    def _current(self) -> _Drawing | None:
        """The drawing so far; a new one is begun when it no longer fits."""
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
            self._data, self._facts = await _in_thread(_decode, self._encoded)
        except PictureError as error:
            self._trouble = str(error)
        self._graphics = await asking
        self.refresh(layout=True)

    async def _draw(self, frame: _Frame) -> None:
        try:
            drawing = await _in_thread(_draw, self._data, self._facts, frame, lambda: frame == self._wanted)
        except PictureError as error:
            self._trouble = str(error)
            self.refresh(layout=True)
            return
        if frame != self._wanted or drawing is None:
            return
        driver = driver_of(self.app)
        if drawing.sent and driver is not None:
            driver.write(drawing.sent)
        self._delete(self._drawing)
        self._drawing = drawing
        self.refresh()

    def _delete(self, drawing: _Drawing | None) -> None:
        driver = driver_of(self.app)
        if drawing is not None and drawing.number and driver is not None:
            driver.write(deletion(drawing.number))

    def _facts_line(self) -> str:
        facts = f"{self._facts}" if self._facts else "" if self._trouble else "…"
        is_undrawn = self._graphics.kind is GraphicsKind.WORDS and self._facts is not None
        undrawn = "not drawn without colour" if is_undrawn else ""
        return " · ".join(part for part in (facts, undrawn, self._note) if part)

    def _partial(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)


def _text_line(text: str, width: int, style: Style) -> Strip:
    line = one_line(text, max(1, width))
    return Strip([Segment(line, style)]).adjust_cell_length(width, style)


async def _in_thread(work: Callable[..., _T], *given: object) -> _T:
    return await asyncio.get_running_loop().run_in_executor(_painter, partial(work, *given))


def _decode(encoded: str) -> tuple[bytes, PictureFacts]:
    data = unpacked(encoded)
    return data, examine(data)


def _draw(data: bytes, facts: PictureFacts, frame: _Frame, is_wanted: Callable[[], bool]) -> _Drawing | None:
    """The drawing, or None when it is no longer wanted. Raises: PictureError."""
    if not is_wanted():
        return None
    graphics, columns, rows = frame.graphics, frame.columns, frame.rows
    size = graphics.within(facts.width, facts.height, columns, rows)
    image = shrunk(data, size, graphics.pixels(columns, rows), frame.background)
    match graphics.kind:
        case GraphicsKind.SIXEL:
            sixels = []
            for row in sixel_rows(image, graphics.cell[1]):
                if not is_wanted():
                    return None
                sixels.append(row)
            return _Drawing(frame, sixels=sixels)
        case GraphicsKind.KITTY:
            number = next(_numbers)
            sent = transmission(image, number, columns, rows)
            return _Drawing(frame, placeholders(number, columns, rows), number=number, sent=sent)
        case _:
            return _Drawing(frame, half_blocks(image))
