"""Work on an event loop: calls from any thread, work at given times of the wall clock, locks, and a queue."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

from mcpdesk.errors import StorageError

MAX_SLEEP_S = 30.0
"""Maximum sleep, so that changes of the clock and a suspended machine are detected."""
RETRY_S = 5.0
"""Pause before a retry after a failure."""

T = TypeVar("T")
Values = TypeVarTuple("Values")
_log = logging.getLogger(__name__)


def call_soon_safely(
    loop: asyncio.AbstractEventLoop, function: Callable[[Unpack[Values]], object], *values: *Values
) -> None:
    """Call a function soon on a loop, from any thread. A closed loop is ignored."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)


class Schedule:
    """Calls `work` at the times that `work` itself requests.

    `work` returns the time of its next call in Unix seconds. If it returns None, it is called at the next
    `wake`. Used on one loop.
    """

    def __init__(
        self, work: Callable[[], Awaitable[float | None]], clock: Callable[[], float] = time.time
    ) -> None:
        self._work = work
        self._clock = clock
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Call `work` now, because something changed. The first call starts the schedule."""
        self._wake_event.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop calling `work`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            self._wake_event.clear()
            try:
                next_time = await self._work()
            except StorageError as error:
                _log.warning("scheduled work failed; retrying in %g s: %s", RETRY_S, error)
                next_time = self._clock() + RETRY_S
            except Exception:  # any failure; later work must still run
                _log.exception("scheduled work failed; retrying in %g s", RETRY_S)
                next_time = self._clock() + RETRY_S
            wait_s = None if next_time is None else min(MAX_SLEEP_S, next_time - self._clock())
            if wait_s is None or wait_s > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake_event.wait()


class NamedLocks:
    """One lock for each name in use. Used on one loop."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Return the lock of a name."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


class SerialQueue(Generic[T]):
    """Calls `work` with each requested item, one after the other. Used on one loop.

    A request for an item that is already queued has no effect. A request for an item that is being processed
    queues the item again.
    """

    def __init__(self, work: Callable[[T], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: list[T] = []
        self._work_task: asyncio.Task[None] | None = None

    def ask(self, item: T) -> None:
        """Queue an item."""
        if item not in self._waiting:
            self._waiting.append(item)
        if self._work_task is None:
            self._work_task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Clear the queue, and cancel the current work."""
        self._waiting.clear()
        if self._work_task is not None:
            self._work_task.cancel()
            await asyncio.wait({self._work_task})

    async def _run(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._work(self._waiting.pop(0))
                except StorageError as error:
                    _log.warning("work failed: %s", error)
                except Exception:  # any failure; the other items must still be processed
                    _log.exception("work failed")
        finally:
            self._work_task = None
