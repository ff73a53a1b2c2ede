"""Which calls are slow: measured against others of their own kind, without keeping any of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_ENOUGH: Final = 20
_STEP: Final = 0.05
_QUANTILE: Final = 0.95
_FLOOR_S: Final = 1e-6


class Pace:
    """A running estimate of the 95th percentile of seconds, per label.

    Each duration nudges the estimate up or down by a share of itself, so that it settles where 95 of 100 lie
    below: two numbers a label instead of a history.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}

    def forget(self, labels: Collection[int]) -> None:
        """Forget labels nothing has any more."""
        for label in labels:
            self._seen.pop(label, None)

    def is_slow(self, label: int, elapsed: float) -> bool:
        """Whether `elapsed` is over twice the usual 95th percentile; remembers it. Never before 20 calls."""
        count, usual = self._seen.get(label, (0, max(elapsed, _FLOOR_S)))
        slow = count >= _ENOUGH and elapsed > 2 * usual
        share = _QUANTILE if elapsed > usual else _QUANTILE - 1
        self._seen[label] = (count + 1, max(usual * (1 + _STEP * share), _FLOOR_S))
        return slow
