"""Queries a terminal for its graphics protocols.

The query is sent when the first picture is shown, not at startup. The person may be typing then, so the
replies arrive between the typed keys.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App

from mcpdesk.features.pictures.terminal_graphics import (
    CELL_PIXELS,
    QUERY,
    Graphics,
    GraphicsKind,
    TerminalAnswers,
)
from mcpdesk.tui.terminal import DeskDriver, driver_of

TIMEOUT_S = 0.5
"""Seconds to wait for the answers. Without them, half blocks are drawn. Later pictures use late answers."""
_queries: WeakKeyDictionary[DeskDriver, asyncio.Task[TerminalAnswers]] = WeakKeyDictionary()


async def graphics_of(app: App[Any]) -> Graphics:
    """Return the graphics capabilities that the terminal of an app has reported so far."""
    if app.no_color:
        return Graphics(GraphicsKind.WORDS)
    driver = driver_of(app)
    if driver is None:
        return Graphics()
    if driver not in _queries:
        _queries[driver] = asyncio.create_task(_ask(driver))
    answers = await asyncio.shield(_queries[driver])
    cell = driver.cell_size() or answers.cell or CELL_PIXELS
    if answers.knows_sixel:  # first, because some terminals that support both lack kitty's placeholders
        return Graphics(GraphicsKind.SIXEL, cell)
    has_colours = app.console.color_system == "truecolor"
    return Graphics(
        GraphicsKind.KITTY if answers.knows_kitty and has_colours else GraphicsKind.HALF_BLOCKS, cell
    )


async def _ask(driver: DeskDriver) -> TerminalAnswers:
    loop = asyncio.get_running_loop()
    has_answered = asyncio.Event()
    answers = TerminalAnswers(partial(loop.call_soon_threadsafe, has_answered.set))
    driver.without_replies = answers.extract
    driver.write(QUERY)
    with suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_S):
            await has_answered.wait()
    return answers
