"""The gateway dialect beside the standard endpoint of the same process; its events; memory of its jobs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import pairwise

import aiohttp
import psutil

from tests.bench.contender import Served, contenders
from tests.bench.figure import OURS, Effort, Figure, Goal, beside, values
from tests.bench.measured import Measured

STANDARD = "standard"
MORE = Goal(1.1, at_most=True)
PATHS = {OURS: "/v1/mcp", STANDARD: "/mcp/echo"}
SLICES = 8
"""Loads a round: short, alternating ones are equally affected by other programs."""
INTERVAL_MS = 200
LATE = Goal(1.5, at_most=True)
CLOCK = "clock"
"""A task in the readers' process that sleeps for the interval: the current lateness of this machine."""
READERS = 50
JOBS = 3_000
"""More than the server keeps, so the oldest are dropped."""
GROWN = Goal(8.0, at_most=True)
_AT_ONCE = 50


def figures(effort: Effort) -> Iterator[Figure]:
    """CPU time of an answer, time between events, and memory of jobs once the limit is reached."""
    with contenders(effort) as (ours, *_), ours.served() as served:
        for era in ("handshake", "stateless"):
            for connections in (1, 32):
                samples = _calls(effort, served, era, connections)
                name = f"gateway {era} c{connections}, CPU"
                yield from beside(name, "us", values("cpu_us", samples), {STANDARD: MORE})
        url = f"http://127.0.0.1:{served.place.port}"
        gaps = [asyncio.run(_longest_gaps(url, effort.seconds)) for _ in range(effort.rounds)]
        latest = {name: [each[name] for each in gaps] for name in (OURS, CLOCK)}
        yield from beside(
            f"events every {INTERVAL_MS} ms, {READERS} readers, latest", "ms", latest, {CLOCK: LATE}
        )
        asyncio.run(_jobs(url, JOBS))
        before, rates, grown = _memory(served), [], []
        for _ in range(effort.rounds):
            began = time.perf_counter()
            asyncio.run(_jobs(url, JOBS))
            rates.append(JOBS / (time.perf_counter() - began))
            grown.append(_memory(served) - before)
        yield Figure("jobs begun and ended", "/s", rates)
        yield Figure(f"memory after {JOBS} further jobs", "MiB", grown, goal=GROWN)


def _calls(effort: Effort, served: Served, era: str, connections: int) -> dict[str, list[Measured]]:
    short = Effort(effort.rounds * SLICES, effort.seconds / 4, effort.peers)
    places = {name: Served(served.place, path) for name, path in PATHS.items()}
    return short.interleaved(
        {name: place.job("echo", era, short.seconds, connections).run for name, place in places.items()}
    )


async def _longest_gaps(url: str, seconds: float) -> dict[str, float]:
    """Longest time in ms between two events for one of many readers, and for a plain clock."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        name = await _begin(client, url, "tick", {"count": 100_000_000})
        path = f"{url}/v1/mcp/progress/{name}?interval_ms={INTERVAL_MS}&max_ms={int(1000 * seconds)}"
        *gaps, ticks = await asyncio.gather(
            *(_gaps(client, path) for _ in range(READERS)), _ticks(round(1000 * seconds / INTERVAL_MS))
        )
        async with client.delete(f"{url}/jobs/{name}") as answer:
            await answer.read()
    return {OURS: 1000 * max(max(each) for each in gaps), CLOCK: 1000 * max(ticks)}


async def _gaps(client: aiohttp.ClientSession, path: str) -> list[float]:
    async with client.get(path) as answer:
        times = [time.perf_counter() async for line in answer.content if line.startswith(b"data: ")]
    return [later - earlier for earlier, later in pairwise(times)]


async def _ticks(count: int) -> list[float]:
    times = [time.perf_counter()]
    for _ in range(count):
        await asyncio.sleep(INTERVAL_MS / 1000)
        times.append(time.perf_counter())
    return [later - earlier for earlier, later in pairwise(times)]


async def _jobs(url: str, count: int) -> None:
    """Begin so many jobs, some at a time, and wait for the end of each."""
    async with aiohttp.ClientSession() as client:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one() -> None:
            async with turns:
                name = await _begin(client, url, "echo", {"text": "x" * 64})
                async with client.get(f"{url}/v1/mcp/progress/{name}") as answer:
                    assert b'"succeeded"' in await answer.read()

        await asyncio.gather(*(one() for _ in range(count)))


async def _begin(client: aiohttp.ClientSession, url: str, tool: str, arguments: dict[str, object]) -> str:
    params = {"name": tool, "arguments": arguments, "mode": "async"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with client.post(f"{url}/v1/mcp", json=message) as answer:
        result = json.loads(await answer.read())["result"]
    return str(result["job_id"])


def _memory(served: Served) -> float:
    return float(psutil.Process(served.place.pid).memory_info().rss) / (1 << 20)
