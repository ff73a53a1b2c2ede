"""Whole sessions over HTTP: initialize, initialized, one call, DELETE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tests.bench.contender import served
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.load import CYCLE
from tests.bench.measured import Measured

GOALS = {FRAME: Goal(1), SDK: Goal(4.5), TYPESCRIPT: Goal(2)}
CLIENTS = (1, 8)


def figures(effort: Effort) -> Iterator[Figure]:
    """Sessions a second. The TypeScript SDK has no sessions here: it answers as many requests."""
    for clients, samples in effort.afresh(lambda: _started(effort)).items():
        yield from rates(f"http cycle c{clients}", samples, GOALS)


@contextmanager
def _started(effort: Effort) -> Iterator[Mapping[int, Mapping[str, Callable[[], Measured]]]]:
    with served(effort) as places:
        yield {
            clients: {
                name: place.job(CYCLE, "handshake", effort.seconds, clients).run
                for name, place in places.items()
            }
            for clients in CLIENTS
        }
