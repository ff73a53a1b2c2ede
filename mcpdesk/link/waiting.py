"""Waiting for another process, which is forbidden on threads that run an event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
WAIT_S = 2.0
"""Seconds a worker thread waits for an answer of another process."""


def is_on_event_loop() -> bool:
    """Return True on a thread that is running an event loop, such as the UI thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_event_loop() -> None:
    """Raises: RuntimeError on a thread that is running an event loop, where waiting would be a bug."""
    if is_on_event_loop():
        raise RuntimeError("a thread that runs an event loop must not wait for another process")


def result_of(asked: Future[Result], seconds: float = WAIT_S) -> Result:
    """Return the result of a future. Call it on a worker thread.

    Raises: TimeoutError; RuntimeError on a thread that runs an event loop; the exception of the future.
    """
    refuse_on_event_loop()
    return asked.result(seconds)
