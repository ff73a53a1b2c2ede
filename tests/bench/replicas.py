"""Replicas that share an engine, beside one server alone: processor time a call, and what lies in the engine.

All run on one machine together with their clients, so rates say little: a call's processor time is what a
replica on a machine of its own would have, and what decides how many calls it can answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import psutil

from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from tests.bench.figure import Effort, Figure, Goal
from tests.support.engine import PROGRAM, EngineServer, engine_server
from tests.support.replicas import ReplicaCluster, ServedReplica, replica_cluster
from tests.support.session_client import SessionClient, calculator

CLIENTS = 16
WARM_S = 1.0
COUNTS = (1, 2, 4)
SESSIONS = 10_000
OPENERS = 32
STATELESS, SESSION = Goal(0.7), Goal(0.5)


def figures(effort: Effort) -> Iterator[Figure]:
    """Ratios of processor time a call, one server alone beside each replica; MiB of the engine."""
    if not PROGRAM:
        return
    rounds = [asyncio.run(_measured(effort.seconds)) for _ in range(effort.rounds)]
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        goal = STATELESS if name.startswith("stateless") else SESSION if name.startswith("session ") else None
        unit = "MiB" if "memory" in name else "x alone"
        yield Figure(f"replicas.{name}", unit, values, goal=goal)


async def _measured(seconds: float) -> dict[str, float]:
    found: dict[str, float] = {}
    with TemporaryDirectory() as place, engine_server() as engine:
        folder = calculator(Path(place))
        alone = await _alone(folder, Path(place), seconds)
        for count in COUNTS:
            home = Path(place) / str(count)
            home.mkdir()
            async with replica_cluster(count, [folder], engine, home) as cluster:
                for kind in ("stateless", "session"):
                    cost = await _cost(cluster.url, cluster.replicas, kind == "session", seconds)
                    found[f"{kind} {count}"] = alone[kind] / cost
                if count == COUNTS[-1]:
                    found["engine memory of 10,000 sessions"] = await _memory(cluster, engine)
    return found


async def _alone(folder: Path, place: Path, seconds: float) -> dict[str, float]:
    """Processor time a call of a server that shares nothing, by kind of call."""
    server = ServedReplica([folder], "", place / "alone")
    try:
        await asyncio.to_thread(server.wait_until_it_serves)
        return {
            kind: await _cost(server.url, [server], kind == "session", seconds)
            for kind in ("stateless", "session")
        }
    finally:
        await asyncio.to_thread(server.end)


async def _cost(url: str, replicas: Sequence[ServedReplica], has_session: bool, seconds: float) -> float:
    """Processor seconds of all replicas for one call, over connections that are kept."""
    calls = 0
    is_counted = is_over = False

    async def work() -> None:
        nonlocal calls
        async with _client(url, has_session) as ask:
            while not is_over:
                await ask()
                calls += is_counted

    workers = [asyncio.create_task(work()) for _ in range(CLIENTS)]
    await asyncio.sleep(WARM_S)
    began, is_counted = _processor_s(replicas), True
    await asyncio.sleep(seconds)
    is_counted, ended, is_over = False, _processor_s(replicas), True
    await asyncio.gather(*workers)
    return (ended - began) / calls


def _processor_s(replicas: Sequence[ServedReplica]) -> float:
    times = [psutil.Process(each.process.pid).cpu_times() for each in replicas]
    return float(sum(each.user + each.system for each in times))


@asynccontextmanager
async def _client(url: str, has_session: bool) -> AsyncIterator[Any]:
    """Calls a tool over one connection."""
    async with aiohttp.ClientSession() as http:
        client = SessionClient(url, http)
        client.headers.pop("Connection")
        if has_session:
            await client.open()
            yield lambda: client.call("add", a=1, b=2)
            return
        meta = request_meta(V2026_07_28, {"name": "bench", "version": "1"})
        client.headers |= {
            "MCP-Protocol-Version": V2026_07_28.name,
            "Mcp-Method": "tools/call",
            "Mcp-Name": "add",
        }
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
        yield lambda: client.ask("tools/call", **params)


async def _memory(cluster: ReplicaCluster, engine: EngineServer) -> float:
    """MiB by which the engine grew for 10,000 sessions."""
    before = used(engine)

    async def open_some(count: int) -> None:
        async with aiohttp.ClientSession() as http:
            for _ in range(count):
                client = SessionClient(cluster.url, http)
                client.headers.pop("Connection")
                await client.open()

    await asyncio.gather(*(open_some(SESSIONS // OPENERS) for _ in range(OPENERS)))
    return (used(engine) - before) / (1 << 20) * SESSIONS / (SESSIONS // OPENERS * OPENERS)


def used(engine: EngineServer) -> int:
    """Bytes in use by the engine."""
    told = engine.ask("INFO", "memory")
    return int(told.partition("used_memory:")[2].partition("\r")[0])
