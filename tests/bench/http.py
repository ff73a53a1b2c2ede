"""HTTP `tools/call` of an echo tool, capture on: `mcpdesk serve` beside its peers, in both eras."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.bench.contender import Served, served
from tests.bench.figure import FRAME, OURS, SDK, TYPESCRIPT, Effort, Figure, Goal, beside, rates, values
from tests.bench.measured import Measured
from tests.bench.messages import ERAS

GOALS = {
    ("handshake", 1): {FRAME: Goal(0.85), SDK: Goal(3.5), TYPESCRIPT: Goal(1.8)},
    ("handshake", 32): {FRAME: Goal(0.8), SDK: Goal(9), TYPESCRIPT: Goal(2.5)},
    ("handshake", 256): {FRAME: Goal(0.75), SDK: Goal(11), TYPESCRIPT: Goal(2.5)},
    ("stateless", 1): {FRAME: Goal(0.85), SDK: Goal(3.5), TYPESCRIPT: Goal(2)},
    ("stateless", 32): {FRAME: Goal(0.8), SDK: Goal(9), TYPESCRIPT: Goal(4)},
    ("stateless", 256): {FRAME: Goal(0.75), SDK: Goal(11), TYPESCRIPT: Goal(4)},
}
TAILS = (1, 32)
"""Connections at which latencies are told."""
TAIL = Goal(2, at_most=True)
FULL = 80_000
"""Calls that fill a ring of 64 MiB."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, CPU time a call and latencies at 1, 32 and 256 connections; again with full rings."""
    with served(effort) as places:
        for era, connections in GOALS:
            yield from _at(effort, places, era, connections)
        places[OURS].fill(FULL)
        few = {name: place for name, place in places.items() if name in (OURS, FRAME)}
        for era in ERAS:
            for connections in (1, 32):
                yield from _at(effort, few, era, connections, ", full ring")


def _at(
    effort: Effort, places: Mapping[str, Served], era: str, connections: int, what: str = ""
) -> Iterator[Figure]:
    """All there is to say of one number of connections."""
    samples = effort.interleaved(
        {name: place.job("echo", era, effort.seconds, connections).run for name, place in places.items()}
    )
    name = f"http {era} c{connections}{what}"
    yield from rates(name, samples, GOALS[era, connections])
    if connections in TAILS:
        yield from _tails(name, samples, connections)


def _tails(name: str, samples: Mapping[str, list[Measured]], connections: int) -> Iterator[Figure]:
    """The slowest calls beside the usual ones and beside the peers' slowest."""
    slow, usual = values("p99_ms", samples), values("p50_ms", samples)
    yield from beside(f"{name}, p50", "ms", usual)
    yield Figure(f"{name}, p99", "ms", slow[OURS], "own p50", usual[OURS], TAIL if connections > 1 else None)
    if len(slow) > 1:
        yield from beside(f"{name}, p99", "ms", slow, {FRAME: TAIL} if connections == 1 else {})
