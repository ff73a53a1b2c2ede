"""Which event loop a core runs on (uvloop's where it is installed), and how it goes on whatever tasks do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

_log = logging.getLogger(__name__)


def run(main: Coroutine[Any, Any, None], factory: LoopFactory | None = None) -> None:
    """Run a core's life on a loop of its own; without a `factory`, the platform's default loop.

    `sys.exit()` in a task that hosted code left behind stops any loop: it is logged, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=factory) as runner:
        loop = runner.get_loop()
        main_aio = loop.create_task(main)
        while not main_aio.done():
            try:
                loop.run_until_complete(main_aio)
            except (SystemExit, KeyboardInterrupt) as error:
                if main_aio.done():
                    raise
                _log.error("a task in the background raised %r", error, exc_info=error)


def loop_factory() -> LoopFactory | None:
    """What makes a loop; None stands for the default of the platform."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: LoopFactory = uvloop.new_event_loop
    return factory
