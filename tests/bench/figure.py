"""A figure: our values beside a peer's, round by round, and the goal they have to reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from tests.bench.measured import Measured

Case = TypeVar("Case")
Value = TypeVar("Value")

OURS, FRAME, SDK, TYPESCRIPT = "ours", "frame", "SDK", "TypeScript"
"""Names of the contenders; all but `ours` and the names a family adds are peers."""
PEERS = (FRAME, SDK, TYPESCRIPT)


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on the ratio to the peer, or on the figure itself where it has no peer."""

    bound: float
    at_most: bool = False

    def reached(self, value: float) -> bool:
        """True if a value is within the bound."""
        return value <= self.bound if self.at_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:.3g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Without a goal it only informs."""

    name: str
    unit: str
    ours: Sequence[float]
    peer: str = ""
    theirs: Sequence[float] = ()
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Median of the rounds' ratios, which is least affected by other load; None without a peer."""
        if not self.theirs:
            return None
        return median(ours / max(theirs, 1e-9) for ours, theirs in zip(self.ours, self.theirs, strict=True))

    @property
    def verdict(self) -> str:
        """`yes` or `NO`; empty without a goal."""
        if self.goal is None:
            return ""
        value = median(self.ours) if self.ratio is None else self.ratio
        return "yes" if self.goal.reached(value) else "NO"


@dataclass(frozen=True, slots=True)
class Effort:
    """Length of a measurement: rounds, and seconds of load in each. `peers` are the peers to compare with."""

    rounds: int = 3
    seconds: float = 2.0
    peers: tuple[str, ...] = PEERS

    def beside_only(self, peer: str) -> Effort:
        """The same without the other peers."""
        return replace(self, peers=tuple(each for each in self.peers if each == peer))

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

    def afresh(
        self,
        begin: Callable[[], AbstractContextManager[Mapping[Case, Mapping[str, Callable[[], Value]]]]],
    ) -> dict[Case, dict[str, list[Value]]]:
        """Measure every case's contenders once a round, in turn; each round starts its programs again.

        One start of a program differs from the next by more than most gains. `begin` starts and warms them.
        Returns the values of each contender, one a round, by case.
        """
        samples: dict[Case, dict[str, list[Value]]] = {}
        for _ in range(self.rounds):
            with begin() as cases:
                for case, contenders in cases.items():
                    values = samples.setdefault(case, {name: [] for name in contenders})
                    for name, measure in contenders.items():
                        values[name].append(measure())
        return samples


def beside(
    name: str, unit: str, samples: Mapping[str, Sequence[float]], goals: Mapping[str, Goal] | None = None
) -> Iterator[Figure]:
    """Yield a figure for every measured peer, or one without a peer if none was measured."""
    peers = [peer for peer in samples if peer != OURS]
    for peer in peers:
        yield Figure(name, unit, samples[OURS], peer, samples[peer], (goals or {}).get(peer))
    if not peers:
        yield Figure(name, unit, samples[OURS])


def rates(
    name: str, samples: Mapping[str, Sequence[Measured]], goals: Mapping[str, Goal]
) -> Iterator[Figure]:
    """Rate and CPU time beside every peer, with a remark if the load used all of its processor."""
    for figure in beside(name, "/s", values("rate", samples), goals):
        bound = [
            who for who in (OURS, figure.peer) if any(one.is_bound_by_load for one in samples.get(who, ()))
        ]
        note = f"bound by the load: {', '.join(bound)}" if bound else ""
        yield Figure(name, "/s", figure.ours, figure.peer, figure.theirs, figure.goal, note)
    yield from beside(f"{name}, CPU", "us", values("cpu_us", samples))


def values(field: str, samples: Mapping[str, Sequence[object]]) -> dict[str, list[float]]:
    """One field of all measurements."""
    return {name: [getattr(one, field) for one in measured] for name, measured in samples.items()}
