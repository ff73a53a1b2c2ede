"""Detection of calls that are slow compared with others of the same method and name."""

from __future__ import annotations

from collections.abc import Collection
from math import floor, inf, log2
from typing import Final

_MIN_CALLS: Final = 20
"""Minimum number of calls with a label before any of them can count as slow."""
_NORMAL_SHARE: Final = 0.9
"""Fraction of the calls that have a normal duration."""
_STEPS_PER_DOUBLING: Final = 4
"""Number of histogram steps per doubling of the duration."""
_MIN_STEP_S: Final = 1e-6
"""Shortest duration in seconds that the histogram distinguishes."""
_MIN_SLOW_S: Final = 0.01
"""Minimum duration in seconds of a slow call."""
_RENEWAL_DIVISOR: Final = 16
"""The limit is computed again when the number of calls has grown by 1/_RENEWAL_DIVISOR."""


class SlowCallDetector:
    """Histogram of call durations by label (method and name).

    A call is slow if it takes over twice as long as 9 of 10 calls with its label. The limit depends on all
    calls so far, not only on earlier ones. Calls with the same duration are therefore all slow or all not
    slow.
    """

    def __init__(self) -> None:
        self._counts: dict[int, dict[int, int]] = {}
        """Number of calls, by label and histogram step."""
        self._totals: dict[int, int] = {}
        """Number of calls by label."""
        self._limits: dict[int, tuple[int, float]] = {}
        """Number of calls when the limit was computed, and the limit in seconds, by label."""
        self.version = 0
        """Number that increases when a limit changes."""

    def forget(self, labels: Collection[int]) -> None:
        """Forget labels that are no longer used."""
        for label in labels:
            for table in (self._counts, self._totals, self._limits):
                table.pop(label, None)

    def add(self, label: int, elapsed: float) -> None:
        """Count a call that took `elapsed` seconds."""
        step = floor(_STEPS_PER_DOUBLING * log2(max(elapsed, _MIN_STEP_S)))
        counts = self._counts.setdefault(label, {})
        counts[step] = counts.get(step, 0) + 1
        self._totals[label] = self._totals.get(label, 0) + 1

    def is_slow(self, label: int, elapsed: float) -> bool:
        """Return True if a duration in seconds is slow for a label."""
        total = self._totals.get(label, 0)
        if total < _MIN_CALLS:
            return False
        counted_calls, limit_s = self._limits.get(label, (0, inf))
        if not counted_calls or total - counted_calls > counted_calls // _RENEWAL_DIVISOR:
            new_limit_s = self._compute_limit(label, total)
            self._limits[label] = total, new_limit_s
            self.version += new_limit_s != limit_s
            limit_s = new_limit_s
        return elapsed > limit_s

    def _compute_limit(self, label: int, total: int) -> float:
        """Return twice the upper bound, in seconds, of the step that contains the longest normal call."""
        counts = self._counts[label].copy()
        count_so_far = 0
        for step in sorted(counts):
            count_so_far += counts[step]
            if count_so_far >= _NORMAL_SHARE * total:
                return max(_MIN_SLOW_S, float(2 ** (1 + (step + 1) / _STEPS_PER_DOUBLING)))
        return inf
