"""HTTP `tools/call` of an echo tool, capture on: `mcpdesk serve` beside the SDK and beside a bare handler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.load import Job
from tests.bench.messages import ERAS
from tests.bench.process import FRAME, SDK, echo_folder, free_port, running, serving

TO_SDK = Goal(4.0, at_most=False)
TO_FRAME = Goal(0.8, at_most=False)


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second at 32 connections, in both eras."""
    with ExitStack() as stack:
        folder = stack.enter_context(echo_folder())
        sdk, frame = free_port(), free_port()
        stack.enter_context(running([*SDK, str(sdk)], folder.parent, sdk))
        stack.enter_context(running([*FRAME, str(frame)], folder.parent, frame))
        ours = stack.enter_context(serving(folder))
        for era in ERAS:
            jobs = {
                "ours": Job(ours, "/mcp/echo", era, effort.seconds),
                "SDK": Job(sdk, "/mcp", era, effort.seconds),
                "bare aiohttp": Job(frame, "/mcp", era, effort.seconds),
            }
            samples = effort.interleaved({name: job.run for name, job in jobs.items()})
            for peer, goal in (("SDK", TO_SDK), ("bare aiohttp", TO_FRAME)):
                yield Figure(f"http {era} c32", "/s", samples["ours"], peer, samples[peer], goal)
