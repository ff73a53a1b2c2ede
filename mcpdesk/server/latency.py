"""How long the latest calls of one peer took: a small ring, so that thousands of peers cost little."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

KEPT = 64
"""Calls the figures are made of."""


class Latency:
    """Seconds of the last `KEPT` calls, and of all together."""

    __slots__ = ("_latest", "count", "total_s")

    def __init__(self) -> None:
        self._latest = array("f")
        """Cut to those that count whenever there are twice as many."""
        self.count = 0
        """How many calls there were."""
        self.total_s = 0.0

    def __len__(self) -> int:
        return min(len(self._latest), KEPT)

    def __iter__(self) -> Iterator[float]:
        return iter(self._latest[-KEPT:].tolist())

    def add(self, seconds: float, calls: int = 1) -> None:
        """So many calls ended, each after `seconds`."""
        latest = self._latest
        if calls == 1:
            latest.append(seconds)
        else:
            latest.extend((seconds,) * min(calls, KEPT))
        if len(latest) >= 2 * KEPT:
            del latest[:-KEPT]
        self.count += calls
        self.total_s += seconds * calls

    def join(self, other: Latency) -> None:
        """Add the calls of another peer."""
        self._latest.extend(other._latest[-KEPT:])
        del self._latest[:-KEPT]
        self.count += other.count
        self.total_s += other.total_s

    def at(self, share: float) -> float | None:
        """What `share` of the calls did not exceed, in seconds; None before the first call."""
        return at(sorted(self), share)


def at(ordered: list[float], share: float) -> float | None:
    """What `share` of the seconds did not exceed; None where there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
