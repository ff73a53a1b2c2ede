"""The one thread that follows all programs: it reads what they write, sees them end, and ends them.

It has a loop of its own, so that neither a flood nor a slow disk holds up the one that serves. It rests
between its looks, the longer the more it follows: what many write little by little is taken in fewer pieces.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

REST_PER_PIPE_S = 10e-6
FLOOD_RATE = 400e6
"""Bytes a second that are taken at most, of all programs together."""
LEAST_REST_S, MOST_REST_S = 0.0005, 0.005
QUIT_S = 2.0


class Supervisor:
    """A loop in a thread that begins with the first coroutine given to it. Any thread may use it."""

    def __init__(self) -> None:
        self._selector = _Rested()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end = asyncio.Event()
        self._tasks_aio: set[asyncio.Task[Any]] = set()

    def run(self, coroutine: Coroutine[Any, Any, T], report: Callable[[T | BaseException], None]) -> None:
        """Run it to its end, then call `report`, on the supervisor's thread, with what came of it."""
        self.call(lambda: self._start(coroutine, report))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function soon, on the supervisor's thread."""
        with contextlib.suppress(RuntimeError):  # closed: the process ends
            self._begun().call_soon_threadsafe(function)

    def took(self, size: int) -> None:
        """So many bytes were read in one go; they are paid for with a rest. On the supervisor's thread."""
        self._selector.owed_s += size / FLOOD_RATE

    def close(self) -> None:
        """Leave all programs as they are, and end."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end.set)
            thread.join(QUIT_S)

    def _begun(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.SelectorEventLoop(self._selector)
                self._thread = threading.Thread(
                    target=self._live, args=(self._loop,), name="programs", daemon=True
                )
                self._thread.start()
            return self._loop

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._until_the_end())

    async def _until_the_end(self) -> None:
        await self._end.wait()

    def _start(self, coroutine: Coroutine[Any, Any, T], report: Callable[[T | BaseException], None]) -> None:
        task_aio = asyncio.ensure_future(coroutine)
        self._tasks_aio.add(task_aio)
        task_aio.add_done_callback(lambda done: self._over(done, report))

    def _over(self, task_aio: asyncio.Task[T], report: Callable[[T | BaseException], None]) -> None:
        self._tasks_aio.discard(task_aio)
        if not task_aio.cancelled():
            report(task_aio.exception() or task_aio.result())


class _Rested(selectors.DefaultSelector):
    """Rests before it looks, unless there is other work."""

    def __init__(self) -> None:
        super().__init__()
        self.owed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            rest = self.owed_s + REST_PER_PIPE_S * len(self.get_map())
            if rest >= LEAST_REST_S:
                self.owed_s = 0.0
                rest = min(rest, MOST_REST_S, timeout or MOST_REST_S)
                time.sleep(rest)
                timeout = None if timeout is None else timeout - rest
        return super().select(timeout)


SUPERVISOR = Supervisor()
"""One for this operating system process."""
atexit.register(SUPERVISOR.close)
