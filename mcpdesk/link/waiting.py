"""Waiting for another process: never on a thread that runs an event loop, which would stand still."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
WAIT_S = 2.0
"""Seconds a worker thread waits for an answer of another process."""


def is_on_event_loop() -> bool:
    """True on a thread that runs an event loop now, such as the one that draws the screen."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_event_loop() -> None:
    """Raises: RuntimeError on a thread that runs an event loop; to wait there is a bug."""
    if is_on_event_loop():
        raise RuntimeError("a thread that runs an event loop must not wait for another process")


def result_of(asked: Future[Result], seconds: float = WAIT_S) -> Result:
    """The result of a future. Call it on a worker thread.

    Raises: TimeoutError; RuntimeError on a thread that runs an event loop; what the future raises.
    """
    refuse_on_event_loop()
    return asked.result(seconds)
