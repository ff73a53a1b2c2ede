"""Bounded table of requests that are unanswered or were answered recently."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RequestTable(Generic[K, V]):
    """Values of requests, oldest first. The key is an id, or a connection and an id.

    A peer that never answers cannot fill the memory: if there are more than `max_requests` requests, the
    oldest is removed.
    """

    def __init__(self, max_requests: int) -> None:
        self._max_requests = max_requests
        self._values: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def add(self, key: K, value: V) -> V | None:
        """Add a request as the newest one.

        Return the value that was removed: that of an earlier request with the same key, or that of the oldest
        request of a full table, or None if nothing was removed.
        """
        removed = self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._max_requests:
            removed = self._values.pop(next(iter(self._values)))
        return removed

    def get(self, key: K) -> V | None:
        """Return the value of a request, or None if the request is unknown."""
        return self._values.get(key)

    def take(self, key: K) -> V | None:
        """Remove a request and return its value, or None if the request is unknown."""
        return self._values.pop(key, None)

    def take_all(self, matches: Callable[[K, V], bool]) -> list[tuple[K, V]]:
        """Remove all matching requests, and return them with their values, oldest first."""
        matching = [(key, value) for key, value in self._values.items() if matches(key, value)]
        for key, _ in matching:
            del self._values[key]
        return matching
