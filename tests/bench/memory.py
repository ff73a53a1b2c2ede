"""Memory of `mcpdesk serve`: after the first call, and when it has recorded more than its ring keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench.contender import Served, served
from tests.bench.figure import FRAME, OURS, SDK, TYPESCRIPT, Effort, Figure, Goal, beside
from tests.bench.process import memory_mib

IDLE = {
    FRAME: Goal(1 / 0.75, at_most=True),
    SDK: Goal(0.75, at_most=True),
    TYPESCRIPT: Goal(0.65, at_most=True),
}
LATER = {
    FRAME: Goal(1 / 0.3, at_most=True),
    SDK: Goal(1 / 0.6, at_most=True),
    TYPESCRIPT: Goal(0.57, at_most=True),
}
CALLS = 50_000
RING_MIB = 64
GROWN = Goal(1.2 * RING_MIB, at_most=True)
SETTLE_S = 1.0


def figures(effort: Effort) -> Iterator[Figure]:
    """Yield MiB of the process and its children. Every round starts all programs again."""
    idle: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    for _ in range(effort.rounds):
        with served(effort) as places:
            for name, place in places.items():
                idle.setdefault(name, []).append(_after(place, 1))
            for name, place in places.items():
                later.setdefault(name, []).append(_after(place, CALLS))
    yield from beside("memory idle", "MiB", idle, IDLE)
    yield from beside(f"memory after {CALLS:,} calls", "MiB", later, LATER)
    grown = [now - before for now, before in zip(later[OURS], idle[OURS], strict=True)]
    yield Figure(f"memory of {CALLS:,} calls", "MiB", grown, goal=GROWN)


def _after(place: Served, calls: int) -> float:
    place.fill(calls)
    time.sleep(SETTLE_S)
    return memory_mib(place.place.pid)
