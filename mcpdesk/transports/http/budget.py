"""Bytes of request bodies held at a time, by all clients of a listener together."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """`most` says how many bytes may be held now."""

    def __init__(self, most: Callable[[], int]) -> None:
        self.held = 0
        self.most = most


class Holding:
    """One connection's part of a budget: that of the request being received or answered."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    @property
    def most(self) -> int:
        """Bytes that all together may hold now."""
        return self._budget.most()

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
