"""How long the latest calls of one peer took: a small ring, so that thousands of peers cost little."""

from __future__ import annotations

from array import array

KEPT = 64
"""Calls the figures are made of."""


class Latency:
    """Seconds of the last `KEPT` calls."""

    __slots__ = ("_count", "_ring")

    def __init__(self) -> None:
        self._ring = array("f")
        self._count = 0

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, seconds: float) -> None:
        """One more call ended."""
        if len(self._ring) < KEPT:
            self._ring.append(seconds)
        else:
            self._ring[self._count % KEPT] = seconds
        self._count += 1

    def at(self, share: float) -> float | None:
        """What `share` of the calls did not exceed, in seconds; None before the first call."""
        ordered = sorted(self._ring.tolist())
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
