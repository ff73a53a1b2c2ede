"""Round trips over a WebSocket, beside a bare aiohttp loop: no peer serves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

from tests.bench.contender import served
from tests.bench.figure import FRAME, Effort, Figure, Goal, rates
from tests.bench.messages import ASKS
from tests.bench.socket_line import SocketLine
from tests.bench.stdio import sequence

GOALS = {1: {FRAME: Goal(0.85)}, 64: {FRAME: Goal(0.6)}}


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second, one by one and 64 in flight."""
    alike = tuple(peer for peer in effort.peers if peer == FRAME)
    with served(replace(effort, peers=alike)) as places, ExitStack() as stack:
        lines = {
            name: stack.enter_context(closing(SocketLine(place.place, f"{place.path}/ws")))
            for name, place in places.items()
        }
        for in_flight, goals in GOALS.items():
            samples = effort.interleaved(
                {
                    name: partial(line.load, ASKS["echo"], "stateless", effort.seconds, in_flight)
                    for name, line in lines.items()
                }
            )
            yield from rates(f"ws {sequence(in_flight)}", samples, goals)
