"""Which event loop a core runs on (uvloop's where it is installed), and how it goes on whatever tasks do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mcpdesk.hosting.alert_selector import AlertSelector, is_worthwhile

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LEFTOVERS_S = 1.0
"""How long tasks may take to heed their cancellation once the core has ended."""

_log = logging.getLogger(__name__)


def run(main: Coroutine[Any, Any, T], factory: LoopFactory | None = None) -> T:
    """Run a core's life on a loop of its own; without a `factory`, the platform's default loop.

    `sys.exit()` in a task that hosted code left behind stops any loop: it is logged, and the loop goes on.
    What hosted code leaves running at the end is given `LEFTOVERS_S` seconds, not the rest of its life.
    """
    loop = factory() if factory is not None else asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return _complete(loop, loop.create_task(main))
    finally:
        _complete(loop, loop.create_task(_end_leftovers()))
        asyncio.set_event_loop(None)
        loop.close()


def _complete(loop: asyncio.AbstractEventLoop, task_aio: asyncio.Task[T]) -> T:
    while True:
        try:
            return loop.run_until_complete(task_aio)
        except (SystemExit, KeyboardInterrupt) as error:
            if task_aio.done():
                raise
            _log.error("a task in the background raised %r", error, exc_info=error)


async def _end_leftovers() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task_aio in left:
        task_aio.cancel()
    if left:
        _, pending = await asyncio.wait(left, timeout=LEFTOVERS_S)
        for task_aio in pending:
            _log.warning("left behind, for it does not end: %s", task_aio)


def alert_loop() -> asyncio.AbstractEventLoop:
    """One for a core that has its process to itself: a screen would wait for the interpreter's lock."""
    return asyncio.SelectorEventLoop(AlertSelector() if is_worthwhile() else None)


def loop_factory() -> LoopFactory | None:
    """What makes a loop; None stands for the default of the platform."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: LoopFactory = uvloop.new_event_loop
    return factory
