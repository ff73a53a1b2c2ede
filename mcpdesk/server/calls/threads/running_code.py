"""Code that still runs although its call has ended: a function in a thread, or code that blocks a loop.

Such code cannot be interrupted. When the call is cancelled or times out, the call only stops waiting for the
code.
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

CaptureKey = tuple[int, Id]
"""Connection and id of a call. Two calls may have equal values, but each has its own tuple object."""
CODE_STILL_RUNS = "stopped waiting: its code still runs"
CODE_ENDED = "its code has ended"


class _EndedCall:
    """Call that has ended, although `count` threads or loops still run its code."""

    def __init__(self, capture_key: CaptureKey) -> None:
        self.capture_key = capture_key
        self.count = 0
        self.listeners: list[Callable[[], None]] = []


class RunningCode:
    """Calls whose code still runs. May be used on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[int, _EndedCall] = {}

    def add(self, capture_key: CaptureKey) -> None:
        """Record that code of a call still runs after its end."""
        with self._lock:
            self._calls.setdefault(id(capture_key), _EndedCall(capture_key)).count += 1

    def remove(self, capture_key: CaptureKey) -> None:
        """Record that code of a call has ended. When the call has no running code, run the listeners
        on this thread.
        """
        with self._lock:
            ended_call = self._calls[id(capture_key)]
            ended_call.count -= 1
            if ended_call.count:
                return
            del self._calls[id(capture_key)]
        for listener in ended_call.listeners:
            listener()

    def has(self, capture_key: CaptureKey | None) -> bool:
        """Return True if code of a call still runs after its end."""
        return capture_key is not None and id(capture_key) in self._calls

    def when_ended(self, capture_key: CaptureKey, listener: Callable[[], None]) -> None:
        """Call `listener` when all code of a call has ended. If no code of the call runs now, call `listener`
        at once.
        """
        with self._lock:
            ended_call = self._calls.get(id(capture_key))
            if ended_call is not None:
                ended_call.listeners.append(listener)
                return
        listener()


RUNNING_CODE = RunningCode()
"""Calls of this process whose code still runs."""


def note_running_code_of_job(capture_key: CaptureKey | None, job: Job, store: JobStore) -> None:
    """Record in a finished job that its code still runs, and later that the code has ended."""
    if capture_key is None or not RUNNING_CODE.has(capture_key):
        return
    store.set_running_code(job, is_running=True)
    loop, report_end = asyncio.get_running_loop(), partial(store.set_running_code, job, is_running=False)
    RUNNING_CODE.when_ended(capture_key, lambda: call_soon_safely(loop, report_end))
