"""Bytes of request bodies held at a time, by all clients of a listener together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Budget:
    """`most` says how many bytes may be held now."""

    def __init__(self, most: Callable[[], int]) -> None:
        self.held = 0
        self.most = most

    def holding(self) -> Holding:
        """What the running task holds; given back when the task is over."""
        holding = Holding(self)
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: holding.give_back())
        return holding


class Holding:
    """One request's part of a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def take(self, size: int) -> bool:
        """Hold so many more; False: that would be too many."""
        budget = self._budget
        if budget.held + size > budget.most():
            return False
        budget.held += size
        self._size += size
        return True

    def give_back(self) -> None:
        """Hold nothing any more."""
        self._budget.held -= self._size
        self._size = 0
