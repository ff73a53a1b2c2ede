"""Code that still runs although its call has ended: a function in a thread, or code that blocks a loop.

Such code cannot be interrupted. When its call is cancelled or times out, the call only stops waiting for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.protocol.jsonrpc import Id

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job, JobStore

Place = tuple[int, Id]
"""Connection and id of a call. Two calls may have equal values, but each has its own tuple object."""
RUNS = "stopped waiting: its code still runs"
ENDED = "its code has ended"


class _Left:
    """Code of one call that still runs."""

    def __init__(self, place: Place) -> None:
        self.capture_key = place
        self.count = 0
        self.listeners: list[Callable[[], None]] = []


class LeftCode:
    """Calls whose code still runs. May be used on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[int, _Left] = {}

    def add(self, place: Place) -> None:
        """Record that code of a call still runs after its end."""
        with self._lock:
            self._calls.setdefault(id(place), _Left(place)).count += 1

    def remove(self, place: Place) -> None:
        """Note that such code has ended. If it was the last of a call, run the listeners on this thread."""
        with self._lock:
            left = self._calls[id(place)]
            left.count -= 1
            if left.count:
                return
            del self._calls[id(place)]
        for listener in left.listeners:
            listener()

    def has(self, place: Place | None) -> bool:
        """Return True if code of a call still runs after its end."""
        return place is not None and id(place) in self._calls

    def when_ended(self, place: Place, listener: Callable[[], None]) -> None:
        """Call a function when all code of a call has ended. If none is left, call it at once."""
        with self._lock:
            left = self._calls.get(id(place))
            if left is not None:
                left.listeners.append(listener)
                return
        listener()


LEFT = LeftCode()
"""Calls of this process whose code still runs."""


def note_left_job(place: Place | None, job: Job, store: JobStore) -> None:
    """Note that the code of a finished job still runs, and later that it has ended."""
    if place is None or not LEFT.has(place):
        return
    store.note_left(job, runs=True)
    loop, ended = asyncio.get_running_loop(), partial(store.note_left, job, runs=False)
    LEFT.when_ended(place, lambda: call_soon_safely(loop, ended))
