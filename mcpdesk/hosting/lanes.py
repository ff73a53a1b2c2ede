"""Runs many short coroutines without a task each.

A lane is one task that works through the queue for as long as nothing waits. When a coroutine really waits,
the lane stays with it and another lane takes over the queue. Every coroutine thus runs inside a real task.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any


class Lanes:
    """A queue of coroutines and the tasks that carry them. Used on one loop only."""

    def __init__(self) -> None:
        self._queue: deque[Coroutine[Any, Any, None]] = deque()
        self._lanes: set[asyncio.Task[None]] = set()
        self._is_starting = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._lanes)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine soon, in order of arrival. It must not raise."""
        self._queue.append(work)
        if not self._is_starting:
            self._start()

    async def finished(self) -> None:
        """Wait until everything queued so far is done."""
        while self._lanes:
            await asyncio.wait(self._lanes)

    def _start(self) -> None:
        self._is_starting = True
        loop = asyncio.get_running_loop()
        lane = loop.create_task(self._work())
        self._lanes.add(lane)
        lane.add_done_callback(self._lanes.discard)
        # Runs right after the lane's first step: what is still queued then waits behind a waiting coroutine.
        loop.call_soon(self._look_behind)

    def _look_behind(self) -> None:
        self._is_starting = False
        if self._queue:
            self._start()

    async def _work(self) -> None:
        while self._queue:
            await self._queue.popleft()
