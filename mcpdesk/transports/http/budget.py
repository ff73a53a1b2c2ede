"""Bytes of request bodies held at a time, by all clients of a listener together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Budget:
    """`most` says how many bytes may be held now."""

    def __init__(self, most: Callable[[], int]) -> None:
        self.held = 0
        self.most = most

    def take(self, size: int) -> bool:
        """Hold so many more until the running task is over; False: that would be too many."""
        if self.held + size > self.most():
            return False
        self.held += size
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: self._give(size))
        return True

    def _give(self, size: int) -> None:
        self.held -= size
