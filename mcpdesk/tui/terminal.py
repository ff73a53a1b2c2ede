"""The toolkit's driver of a terminal, able to ask it what it can draw pictures with.

It is asked when the first picture is there, not at the start. Somebody may be typing then: the answers
come among the keys, and are taken out before these are read.
"""

from __future__ import annotations

import asyncio
import struct
import termios
from collections.abc import Callable, Iterable
from contextlib import suppress
from fcntl import ioctl
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual._xterm_parser import XTermParser
from textual.color import Color
from textual.drivers import linux_driver
from textual.filter import LineFilter

from mcpdesk.plain_text import one_cell_each

if TYPE_CHECKING:
    from textual.app import App
    from textual.message import Message

    from mcpdesk.tui.results.terminal_graphics import Answers, Graphics

PATIENCE_S = 0.5
"""A terminal that has not answered by then draws half blocks; later pictures profit from a late answer."""


class DeskDriver(linux_driver.LinuxDriver):
    """One terminal."""

    def __init__(self, app: App[Any], **more: Any) -> None:
        super().__init__(app, **more)
        self._answers: Answers | None = None
        self._asking: asyncio.Task[Answers] | None = None

    def run_input_thread(self) -> None:
        """Read what is typed; the parser is not given what the terminal answers."""
        module: Any = linux_driver
        module.XTermParser = partial(_Parser, self._take)  # the method makes its parser itself
        try:
            super().run_input_thread()
        finally:
            module.XTermParser = XTermParser

    async def graphics(self) -> Graphics:
        """What the terminal can draw, as far as it has told; the first time it is asked."""
        from mcpdesk.tui.results.terminal_graphics import CELL, Graphics, Kind

        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        answers = await asyncio.shield(self._asking)
        cell = self._cell() or answers.cell or CELL
        if answers.knows_sixel:  # first: some that know both do not know kitty's placeholders
            return Graphics(Kind.SIXEL, cell)
        has_colours = self._app.console.color_system == "truecolor"
        return Graphics(Kind.KITTY if answers.knows_kitty and has_colours else Kind.HALF_BLOCKS, cell)

    async def _ask(self) -> Answers:
        from mcpdesk.tui.results.terminal_graphics import QUESTION, Answers

        loop, told = asyncio.get_running_loop(), asyncio.Event()
        answers = self._answers = Answers(partial(loop.call_soon_threadsafe, told.set))
        self.write(QUESTION)
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), PATIENCE_S)
        return answers

    def _take(self, typed: str) -> str:
        return typed if self._answers is None else self._answers.take(typed)

    def _cell(self) -> tuple[int, int] | None:
        """Pixels of a cell, looked up anew each time: a person may choose another font."""
        try:
            size = ioctl(self.fileno, termios.TIOCGWINSZ, bytes(8))
        except OSError:
            return None
        rows, columns, width, height = struct.unpack("HHHH", size)
        if not (rows and columns and width >= columns and height >= rows):
            return None
        return width // columns, height // rows


class _Parser(XTermParser):
    """Does not see the answers."""

    def __init__(self, take: Callable[[str], str], debug: bool = False) -> None:
        super().__init__(debug)
        self._take = take

    def feed(self, data: str) -> Iterable[Message]:
        """The messages in what was read; nothing read means the end."""
        left = self._take(data)
        return super().feed(left) if left or not data else ()


def driver_of(app: App[Any]) -> DeskDriver | None:
    """The driver of an app that draws on a terminal; None in a browser and in a test."""
    return app._driver if isinstance(app._driver, DeskDriver) else None


async def graphics_of(app: App[Any]) -> Graphics:
    """What an app can draw pictures with."""
    from mcpdesk.tui.results.terminal_graphics import Graphics, Kind

    if app.no_color:
        return Graphics(Kind.WORDS)
    driver = driver_of(app)
    return Graphics() if driver is None else await driver.graphics()


class TerminalGate(LineFilter):
    """Takes control characters out of what is drawn, and draws the stand-ins of fields.

    Widgets get cleaned texts; this holds where one of them did not. Links that the terminal itself would
    follow are taken out, too: their addresses are strangers', and the desk opens links only when asked to.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments of a line, of the same widths."""
        return [_harmless(segment) for segment in segments]


def _harmless(segment: Segment) -> Segment:
    text, style, control = segment
    drawn = one_cell_each(text)
    has_link = style is not None and style.link
    if drawn is text and not has_link and not control:
        return segment
    return Segment(drawn, style.update_link(None) if style is not None and has_link else style)
