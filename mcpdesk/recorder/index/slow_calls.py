"""Calls that take longer than others with their method and name."""

from __future__ import annotations

from collections.abc import Collection
from math import floor, inf, log2
from typing import Final

_ENOUGH: Final = 20
"""Calls of a label below which none is slow."""
_USUAL: Final = 0.9
"""The share of calls whose time is usual."""
_STEPS: Final = 4
"""Steps in which times are counted, until they are twice as long."""
_SHORTEST_S: Final = 1e-6
_LEAST_S: Final = 0.01
"""No call that took less is slow for a person."""
_RENEWED: Final = 16
"""When there are more calls by this part of them, the limit is found anew."""


class SlowCallDetector:
    """Counts the seconds of calls per label. A call is slow that took over twice as long as 9 in 10 of them.

    The limit is that of all calls so far, whenever they were: of equal ones, none is slow or all are.
    """

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, int]] = {}
        """Label -> step -> calls."""
        self._totals: dict[int, int] = {}
        self._limits: dict[int, tuple[int, float]] = {}
        """Label -> calls when its limit was found, and that, in seconds."""
        self.version = 0
        """Grows when a limit changes."""

    def forget(self, labels: Collection[int]) -> None:
        """Forget labels nothing has any more."""
        for label in labels:
            for known in (self._counts, self._totals, self._limits):
                known.pop(label, None)

    def add(self, label: int, elapsed: float) -> None:
        """Count a call."""
        step = floor(_STEPS * log2(max(elapsed, _SHORTEST_S)))
        counts = self._counts.setdefault(label, {})
        counts[step] = counts.get(step, 0) + 1
        self._totals[label] = self._totals.get(label, 0) + 1

    def is_slow(self, label: int, elapsed: float) -> bool:
        """Whether a call of so many seconds is slow among those of its label."""
        total = self._totals.get(label, 0)
        if total < _ENOUGH:
            return False
        found, limit = self._limits.get(label, (0, inf))
        if not found or total - found > found // _RENEWED:
            before, limit = limit, self._limit(label, total)
            self._limits[label] = total, limit
            self.version += limit != before
        return elapsed > limit

    def _limit(self, label: int, total: int) -> float:
        counts, seen = self._counts[label].copy(), 0
        for step in sorted(counts):
            seen += counts[step]
            if seen >= _USUAL * total:
                return max(_LEAST_S, float(2 ** (1 + (step + 1) / _STEPS)))
        return inf
