"""One MiB of text, echoed: over HTTP and over stdio."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.contender import contenders, served
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.messages import ASKS
from tests.bench.stdio import over_pipes

GOALS = {
    1: {FRAME: Goal(1), SDK: Goal(4), TYPESCRIPT: Goal(5)},
    8: {FRAME: Goal(1), SDK: Goal(4.5), TYPESCRIPT: Goal(4.5)},
}
OVER_STDIO = {FRAME: Goal(1), SDK: Goal(1.3), TYPESCRIPT: Goal(2.5)}


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, by one and by eight clients."""
    with served(effort) as places:
        for connections, goals in GOALS.items():
            samples = effort.interleaved(
                {
                    name: place.job("big", "stateless", effort.seconds, connections).run
                    for name, place in places.items()
                }
            )
            yield from rates(f"http 1 MiB c{connections}", samples, goals)
    with contenders(effort) as known:
        samples = over_pipes(effort, known, ASKS["big"], "stateless", 1)
    yield from rates("stdio 1 MiB", samples, OVER_STDIO)
