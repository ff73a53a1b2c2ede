"""Whole sessions over HTTP: initialize, initialized, one call, DELETE."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.contender import served
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.load import CYCLE

GOALS = {FRAME: Goal(1), SDK: Goal(4.5), TYPESCRIPT: Goal(2)}
CONNECTIONS = 8


def figures(effort: Effort) -> Iterator[Figure]:
    """Sessions a second, of a few clients at a time."""
    with served(effort) as places:
        samples = effort.interleaved(
            {
                name: place.job(CYCLE, "handshake", effort.seconds, CONNECTIONS).run
                for name, place in places.items()
            }
        )
    yield from rates("http cycle", samples, GOALS)
