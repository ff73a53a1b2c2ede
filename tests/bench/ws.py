"""Round trips over a WebSocket, beside a bare aiohttp loop: no peer offers WebSockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from tests.bench.contender import served
from tests.bench.figure import FRAME, Effort, Figure, Goal, rates
from tests.bench.load import WARM_S
from tests.bench.measured import Measured
from tests.bench.messages import ASKS
from tests.bench.socket_line import SocketLine
from tests.bench.stdio import sequence

GOALS = {1: {FRAME: Goal(0.85)}, 64: {FRAME: Goal(0.6)}}


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, one by one and 64 in flight."""
    alike = effort.beside_only(FRAME)
    for in_flight, samples in effort.afresh(lambda: _started(alike)).items():
        yield from rates(f"ws {sequence(in_flight)}", samples, GOALS[in_flight])


@contextmanager
def _started(effort: Effort) -> Iterator[Mapping[int, Mapping[str, Callable[[], Measured]]]]:
    ask = ASKS["echo"]
    with served(effort) as places, ExitStack() as stack:
        lines = {
            name: stack.enter_context(closing(SocketLine(place.place, f"{place.path}/ws")))
            for name, place in places.items()
        }
        for line in lines.values():
            line.load(ask, "stateless", WARM_S, 1)
        yield {
            in_flight: {
                name: partial(line.load, ask, "stateless", effort.seconds, in_flight)
                for name, line in lines.items()
            }
            for in_flight in GOALS
        }
