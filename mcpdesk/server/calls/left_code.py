"""Code that still runs although its call has ended: a function in a thread, or a blocked loop.

Neither can be interrupted. A call that was cancelled or timed out has only stopped waiting for its code.
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
"""Connection and id of a call. Two calls may have equal ones, but not the same tuple object."""
RUNS = "stopped waiting: its code still runs"
ENDED = "its code has ended"


class _Left:
    """Code of one call that still runs."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.count = 0
        self.listeners: list[Callable[[], None]] = []


class LeftCode:
    """Calls with code that still runs. Safe on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[int, _Left] = {}

    def add(self, place: Place) -> None:
        """Record that code of a call still runs after its end."""
        with self._lock:
            self._calls.setdefault(id(place), _Left(place)).count += 1

    def remove(self, place: Place) -> None:
        """Record that such code has ended. The last one of a call runs its listeners on this thread."""
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
        """Call a function once all code of a call has ended; at once if none is left."""
        with self._lock:
            left = self._calls.get(id(place))
            if left is not None:
                left.listeners.append(listener)
                return
        listener()


LEFT = LeftCode()
"""The instance of this operating system process."""


def note_left_job(place: Place | None, job: Job, store: JobStore) -> None:
    """Record that the code of a finished job still runs, and later that it has ended."""
    if place is None or not LEFT.has(place):
        return
    store.note_left(job, runs=True)
    loop, ended = asyncio.get_running_loop(), partial(store.note_left, job, runs=False)
    LEFT.when_ended(place, lambda: call_soon_safely(loop, ended))
