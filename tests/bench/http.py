"""HTTP `tools/call` of an echo tool, capture on: `mcpdesk serve` beside the SDK and beside a bare handler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.load import WARM_S, Job
from tests.bench.messages import ERAS
from tests.bench.process import FRAME, SDK, Serving, echo_folder, free_port, running, serving

TO_SDK = Goal(4.0, at_most=False)
TO_FRAME = Goal(0.8, at_most=False)


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second at 32 connections and CPU time a call, in both eras."""
    with ExitStack() as stack:
        folder = stack.enter_context(echo_folder())
        sdk, frame = free_port(), free_port()
        places = {
            "ours": (stack.enter_context(serving(folder)), "/mcp/echo"),
            "SDK": (stack.enter_context(running([*SDK, str(sdk)], folder.parent, sdk)), "/mcp"),
            "bare aiohttp": (
                stack.enter_context(running([*FRAME, str(frame)], folder.parent, frame)),
                "/mcp",
            ),
        }
        for era in ERAS:
            contenders = {
                name: partial(_loaded, place, Job(place.port, path, era, effort.seconds))
                for name, (place, path) in places.items()
            }
            samples = effort.interleaved(contenders)
            rates = {name: [rate for rate, _ in values] for name, values in samples.items()}
            costs = {name: [cost for _, cost in values] for name, values in samples.items()}
            for peer, goal in (("SDK", TO_SDK), ("bare aiohttp", TO_FRAME)):
                yield Figure(f"http {era} c32", "/s", rates["ours"], peer, rates[peer], goal)
                yield Figure(f"http {era} c32, CPU", "us", costs["ours"], peer, costs[peer])


def _loaded(place: Serving, job: Job) -> tuple[float, float]:
    """Calls answered a second, and microseconds of CPU time each took."""
    before = place.cpu_s()
    rate = job.run()
    return rate, 1e6 * (place.cpu_s() - before) / (rate * (job.seconds + WARM_S))
