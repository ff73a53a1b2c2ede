"""Progress notifications of a tool, one by one: in one SSE answer, and over stdio."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.contender import contenders, served
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.messages import ASKS, EVENTS
from tests.bench.stdio import over_pipes

OVER_HTTP = {FRAME: Goal(0.4), SDK: Goal(29), TYPESCRIPT: Goal(4.5)}
OVER_STDIO = {FRAME: Goal(0.3), SDK: Goal(180), TYPESCRIPT: Goal(6.5)}


def figures(effort: Effort) -> Iterator[Figure]:
    """Events a second, with one call at a time."""
    with served(effort) as places:
        samples = effort.interleaved(
            {name: place.job("tick", "stateless", effort.seconds, 1).run for name, place in places.items()}
        )
    yield from rates("http progress", samples, OVER_HTTP)
    with contenders(effort) as known:
        samples = over_pipes(effort, known, ASKS["tick"], "stateless", 1, EVENTS)
    yield from rates("stdio progress", samples, OVER_STDIO)
