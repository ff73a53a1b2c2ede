"""What a figure is: ours beside a peer's, round by round, and the goal it has to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio to the peer, or on the figure itself where it has no peer."""

    bound: float
    at_most: bool

    def reached(self, value: float) -> bool:
        """Whether a value keeps within the bound."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Without a goal it only informs."""

    name: str
    unit: str
    ours: Sequence[float]
    peer: str = ""
    theirs: Sequence[float] = ()
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' ratios, which the neighbours' noise moves least; None without a peer."""
        if not self.theirs:
            return None
        return median(ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def verdict(self) -> str:
        """`yes` or `NO`; empty without a goal."""
        if self.goal is None:
            return ""
        value = median(self.ours) if self.ratio is None else self.ratio
        return "yes" if self.goal.reached(value) else "NO"


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds, and seconds of load in each."""

    rounds: int = 3
    seconds: float = 2.0

    def interleaved(self, contenders: Mapping[str, Callable[[], Value]]) -> dict[str, list[Value]]:
        """Measure every contender once a round, in turn, after one round that only warms up.

        Returns each one's values, one a round.
        """
        samples: dict[str, list[Value]] = {name: [] for name in contenders}
        for turn in range(self.rounds + 1):
            for name, measure in contenders.items():
                value = measure()
                if turn:
                    samples[name].append(value)
        return samples
