"""Functions that run a core on an event loop, in this thread or in a separate one beside a screen."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from mcpdesk.hosting.environment import share_among_threads
from mcpdesk.hosting.host import Host

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

STOP_S = 5.0
"""`CoreThread.stop` waits at most this many seconds for a core. A core that does not stop in time is left
running.
"""
LEFTOVERS_S = 1.0
"""Seconds within which remaining tasks must end after they are cancelled."""

_log = logging.getLogger(__name__)


class CoreThread:
    """Separate thread that runs a host, so that hosted code cannot block the screen.

    `started` has a result when the host serves. If the host cannot start, `started` has the exception.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.started: Future[None] = Future()
        self._ended: asyncio.Event | None = None
        """Event that ends the core, or None before its loop runs."""
        self._thread = threading.Thread(target=self._run, name="mcpdesk-core", daemon=True)

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the host if it was started, and wait up to `STOP_S` seconds."""
        if self._thread.ident is None:
            return
        self.host.call_soon(self._request_end)
        self._thread.join(STOP_S)

    def _request_end(self) -> None:
        if self._ended is not None:
            self._ended.set()

    def _run(self) -> None:
        run(self._serve(), loop_factory(self.host))

    async def _serve(self) -> None:
        """Start the host, wait until `stop` is called, and stop the host."""
        self._ended = asyncio.Event()
        try:
            await self.host.start()
        except BaseException as error:
            # A thread cannot raise to the code that started it. That code reads the exception from `started`.
            self.started.set_exception(error)
            await self.host.stop()
            return
        self.started.set_result(None)
        await self._ended.wait()
        await self.host.stop()


def run(main: Coroutine[Any, Any, T], factory: LoopFactory | None = None) -> T:
    """Run the main coroutine of a core on a new event loop.

    Without a `factory` the loop is the platform's default loop. `sys.exit()` in a task of hosted code is
    logged and does not stop the loop. When `main` has ended, tasks of hosted code are cancelled and have
    `LEFTOVERS_S` seconds to end.
    """
    share_among_threads()
    loop = factory() if factory is not None else asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return _complete(loop, loop.create_task(main))
    finally:
        _complete(loop, loop.create_task(_cancel_remaining_tasks()))
        asyncio.set_event_loop(None)
        loop.close()


def loop_factory(host: Host | None = None) -> LoopFactory | None:
    """Return a function that creates event loops.

    If uvloop is installed, the function creates uvloop's loops. `host` cannot observe such loops, so front
    ends poll. Otherwise the function creates loops that `host` observes. Without uvloop and `host`, return
    None for the platform's default.
    """
    try:
        import uvloop
    except ImportError:
        return host.turns.new_loop if host is not None else None
    factory: LoopFactory = uvloop.new_event_loop
    return factory


def _complete(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    """Run the loop until a task has ended. Log exceptions of other tasks that would stop the loop."""
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt) as error:
            if task.done():
                raise
            _log.error("a task in the background raised %r", error, exc_info=error)


async def _cancel_remaining_tasks() -> None:
    """Cancel all other tasks, and wait up to `LEFTOVERS_S` seconds for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=LEFTOVERS_S)
        for task in pending:
            _log.warning("abandoned, because it does not end: %s", task)
