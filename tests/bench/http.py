"""HTTP `tools/call` of an echo tool, capture on: `mcpdesk serve` beside its peers, in both eras."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from tests.bench.contender import served
from tests.bench.figure import FRAME, OURS, SDK, TYPESCRIPT, Effort, Figure, Goal, beside, rates, values
from tests.bench.measured import Measured
from tests.bench.messages import ERAS

Case = tuple[str, int]
"""An era, and the number of connections."""
GOALS: dict[Case, dict[str, Goal]] = {
    ("handshake", 1): {FRAME: Goal(0.85), SDK: Goal(3.5), TYPESCRIPT: Goal(3.1)},
    ("handshake", 32): {FRAME: Goal(0.8), SDK: Goal(9), TYPESCRIPT: Goal(2.7)},
    ("handshake", 256): {FRAME: Goal(0.75), SDK: Goal(11), TYPESCRIPT: Goal(2.5)},
    ("stateless", 1): {FRAME: Goal(0.85), SDK: Goal(3.5), TYPESCRIPT: Goal(2.2)},
    ("stateless", 32): {FRAME: Goal(0.8), SDK: Goal(9), TYPESCRIPT: Goal(4)},
    ("stateless", 256): {FRAME: Goal(0.75), SDK: Goal(11), TYPESCRIPT: Goal(4)},
}
TAIL = Goal(2, at_most=True)
FULL = 80_000
"""Calls that fill a ring of 64 MiB."""
AGAIN = (1, 32)
"""Numbers of connections that are also measured with full rings."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, CPU time of a call and, for one connection, latencies; again with full rings."""
    for case, samples in effort.afresh(lambda: started(effort, GOALS)).items():
        yield from _told(case, samples)
    few = effort.beside_only(FRAME)
    cases = [(era, connections) for era in ERAS for connections in AGAIN]
    for case, samples in few.afresh(lambda: started(few, cases, FULL)).items():
        yield from _told(case, samples, ", full ring")


@contextmanager
def started(
    effort: Effort, cases: Iterable[Case], calls: int = 0
) -> Iterator[Mapping[Case, Mapping[str, Callable[[], Measured]]]]:
    """Loads of all cases on newly started programs; ours has received so many calls before."""
    with served(effort) as places:
        if calls:
            places[OURS].fill(calls)
        yield {
            (era, connections): {
                name: place.job("echo", era, effort.seconds, connections).run
                for name, place in places.items()
            }
            for era, connections in cases
        }


def _told(case: Case, samples: Mapping[str, list[Measured]], what: str = "") -> Iterator[Figure]:
    """Figures for one number of connections."""
    era, connections = case
    name = f"http {era} c{connections}{what}"
    yield from rates(name, samples, GOALS[case])
    if connections == 1:
        yield from beside(f"{name}, p50", "ms", values("p50_ms", samples))
        yield from beside(f"{name}, p99", "ms", values("p99_ms", samples), {FRAME: TAIL})
