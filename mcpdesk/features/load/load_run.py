"""Load test of a tool: calls at a steady rate, even if earlier calls were not answered yet."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.errors import CallError

if TYPE_CHECKING:
    from mcpdesk.client.connection import ServerConnection
    from mcpdesk.hosting.host import Host

MAX_IN_FLIGHT = 10_000
"""Maximum number of concurrent calls. A call beyond this limit is not sent and counts as an error."""
PERCENTILES = (50, 90, 99)
_MAX_ERROR_LENGTH = 120
"""Maximum length in characters of an error in the result."""


class LoadPlan(Struct, frozen=True):
    """Tool, arguments and rate of a load test."""

    tool: str
    arguments: dict[str, Any]
    rate: float
    """Calls per second."""
    seconds: float
    timeout_s: float = 30.0


class LoadResult(Struct, frozen=True):
    """Outcome of a load test. Times are in milliseconds, from the moment a call was due."""

    calls: int
    failed: int
    errors: dict[str, int]
    """Number of occurrences by error, for the most frequent errors."""
    times: list[float]
    """Sorted times of all calls with a response, including tool errors."""
    seconds: float
    """Total duration."""

    def percentile(self, share: float) -> float | None:
        """Return a percentile of the times, or None if no call was answered. `share` is from 0 to 100."""
        if not self.times:
            return None
        return self.times[max(0, ceil(len(self.times) * share / 100) - 1)]


async def run_load(connection: ServerConnection, plan: LoadPlan) -> LoadResult:
    """Call at the rate of the plan, wait for all responses, and return the outcome.

    The time of a call begins when the call is due, even if it is sent later. A slow server therefore cannot
    hide its delays.
    """
    times = list[float]()
    errors = Counter[str]()
    running = set[asyncio.Task[None]]()
    params = {"name": plan.tool, "arguments": plan.arguments}

    async def call(due_s: float) -> None:
        try:
            async with asyncio.timeout(plan.timeout_s):
                result = await connection.result("tools/call", params)
        except TimeoutError:
            errors[f"no answer within {plan.timeout_s:g} s"] += 1
            return
        except CallError as error:
            errors[str(error)[:_MAX_ERROR_LENGTH]] += 1
            return
        times.append((perf_counter() - due_s) * 1000)
        if result.get("isError"):
            texts = [str(each.get("text", "")) for each in result.get("content") or ()]
            errors[" ".join(texts)[:_MAX_ERROR_LENGTH] or "an error of the tool"] += 1

    start_s = perf_counter()
    calls = max(1, round(plan.rate * plan.seconds))
    for number in range(calls):
        due_s = start_s + number / plan.rate
        if (wait_s := due_s - perf_counter()) > 0:
            await asyncio.sleep(wait_s)
        if len(running) >= MAX_IN_FLIGHT:
            errors[f"not sent: {MAX_IN_FLIGHT:,} calls were running"] += 1
            continue
        task = asyncio.create_task(call(due_s))
        running.add(task)
        task.add_done_callback(running.discard)
    if running:
        await asyncio.wait(running)
    total_s = perf_counter() - start_s
    return LoadResult(calls, errors.total(), dict(errors.most_common(5)), sorted(times), total_s)


def mean_phases(host: Host, tool: str) -> dict[str, float]:
    """Return the mean time of a tool's calls in a host, in milliseconds by phase."""
    from mcpdesk.recorder.index.phase_spans import phase_spans

    index = host.recording.index
    while index.catch_up(1.0):
        pass
    calls = [
        exchange
        for exchange in index.exchanges
        if exchange.name == tool and exchange.part_of is None and exchange.ended is not None
    ]
    sums = defaultdict[str, float](float)
    for exchange in calls:
        for span in phase_spans(index, exchange, exchange.ended or 0.0):
            sums[span.kind.value] += span.seconds
    return {kind: seconds * 1000 / len(calls) for kind, seconds in sums.items()}


def as_facts(result: LoadResult, phases: Mapping[str, float]) -> dict[str, Any]:
    """Return a result in the form for JSON."""
    shares: Sequence[int] = PERCENTILES
    return {
        "calls": result.calls,
        "failed": result.failed,
        "errors": result.errors,
        "seconds": round(result.seconds, 3),
        **{f"p{share}_ms": _rounded(result.percentile(share)) for share in shares},
        "max_ms": _rounded(result.percentile(100)),
        "phases_ms": {kind: round(phase_ms, 4) for kind, phase_ms in phases.items()},
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
