"""How a core runs: on which event loop, whatever its tasks do, and beside a screen on a thread of its own."""

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
"""How long `CoreThread.stop` waits for a core that is stuck."""
LEFTOVERS_S = 1.0
"""How long tasks may take to heed their cancellation once the core has ended."""

_log = logging.getLogger(__name__)


class CoreThread:
    """Runs a host on a thread of its own, so that the screen goes on whatever hosted code does.

    `started` is done when the host serves, or holds why it could not.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.started: Future[None] = Future()
        self._ended: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="mcpdesk-core", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the host, if it was started, and wait; a core that is stuck is left behind after a while."""
        if self._thread.ident is None:
            return
        self.host.call_soon(self._end)
        self._thread.join(STOP_S)

    def _end(self) -> None:
        if self._ended is not None:
            self._ended.set()

    def _run(self) -> None:
        run(self._serve(), loop_factory(self.host))

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        try:
            await self.host.start()
        except BaseException as error:
            # Whoever started the thread reports it; a thread has nobody to raise to.
            self.started.set_exception(error)
            await self.host.stop()
            return
        self.started.set_result(None)
        await self._ended.wait()
        await self.host.stop()


def run(main: Coroutine[Any, Any, T], factory: LoopFactory | None = None) -> T:
    """Run a core's life on a loop of its own; without a `factory`, the platform's default loop.

    `sys.exit()` in a task that hosted code left behind stops any loop: it is logged, and the loop goes on.
    What hosted code leaves running at the end is given `LEFTOVERS_S` seconds, not the rest of its life.
    """
    share_among_threads()
    loop = factory() if factory is not None else asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return _complete(loop, loop.create_task(main))
    finally:
        _complete(loop, loop.create_task(_end_leftovers()))
        asyncio.set_event_loop(None)
        loop.close()


def loop_factory(host: Host | None = None) -> LoopFactory | None:
    """The maker of uvloop's event loops where it is installed, else of loops that `host` observes.

    None, without a host: the platform's default. A loop of uvloop cannot be observed: front ends poll.
    """
    try:
        import uvloop
    except ImportError:
        return host.turns.new_loop if host is not None else None
    factory: LoopFactory = uvloop.new_event_loop
    return factory


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
