"""Waiting for another process. It is forbidden on threads that run an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
WAIT_S = 2.0
"""Seconds that a worker thread waits for an answer from another process."""


def is_on_event_loop() -> bool:
    """Return True if this thread runs an event loop. The UI thread does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_event_loop() -> None:
    """Raise RuntimeError on a thread that runs an event loop, because waiting there would be a bug."""
    if is_on_event_loop():
        raise RuntimeError("a thread that runs an event loop must not wait for another process")


def result_of(future: Future[Result], seconds: float = WAIT_S) -> Result:
    """Wait for a future and return its result. Call it on a worker thread.

    Raises: TimeoutError; RuntimeError on a thread that runs an event loop; the exception of the future.
    """
    refuse_on_event_loop()
    return future.result(seconds)
