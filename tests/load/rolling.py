"""Restart replicas one after the other behind HAProxy under clients, and count the calls that fail.

    python -m tests.load.rolling 30 --calls 60000

HAProxy is configured as the page on many machines has it. Clients open a connection for each call or keep
theirs, with a session or without one. A replica gets SIGTERM, ends, and starts again on its port; the next
one follows once HAProxy has found all of them ready.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp

import aiohttp

from tests.support.engine import engine_server
from tests.support.haproxy import all_ready, haproxy
from tests.support.patience import WITHIN_S
from tests.support.ports import free_port
from tests.support.replicas import ReplicaCluster, ServedReplica
from tests.support.session_client import SessionClient, calculator

CLIENTS = 16
PAUSE_S = 0.05
"""Time between two calls of one client."""
REPLICAS = 3


@dataclass
class Restarts:
    """Results of a run."""

    calls: int = 0
    """Calls that succeeded."""
    restarts: int = 0
    failures: list[str] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    """Exit codes of the replicas."""
    longest_s: float = 0.0
    """Longest call."""

    def __str__(self) -> str:
        told = f"{self.restarts} restarts, exit codes {dict(self.codes)}, {self.calls} calls succeeded"
        shown = "; ".join(self.failures[:5])
        return f"{told} (longest {self.longest_s:.2f} s), {len(self.failures)} failed {shown}".rstrip()


class RollingRestart:
    """Replicas on fixed ports, and clients that call them through HAProxy."""

    def __init__(
        self, place: Path, engine: str, lame_duck_s: int, clients: int = CLIENTS, replicas: int = REPLICAS
    ) -> None:
        self._place, self._engine, self._lame_duck_s = place, engine, lame_duck_s
        self._folder = calculator(place)
        self._ports = [free_port() for _ in range(replicas)]
        self._clients = clients
        self._starts = itertools.count()
        self.cluster = ReplicaCluster([self._folder], [engine], place)
        self.found = Restarts()
        self._is_over = asyncio.Event()
        self._began = time.monotonic()

    def start(self, port: int) -> ServedReplica:
        """Start a replica on a port; the caller waits until it serves."""
        state = self._place / f"state-{next(self._starts)}"
        more = {"MCPDESK_LAME_DUCK_S": str(self._lame_duck_s), "MCPDESK_CAPTURE": "false"}
        return ServedReplica([self._folder], self._engine, state, ["--port", str(port)], **more)

    async def run(self, restarts: int, calls: int) -> Restarts:
        """Restart replicas `restarts` times, and make at least `calls` calls."""
        replicas = self.cluster.replicas
        try:
            replicas += map(self.start, self._ports)
            for each in replicas:
                await asyncio.to_thread(each.wait_until_it_serves)
            async with haproxy(self.cluster, self._place) as url:
                clients = [asyncio.create_task(self._call(url, number)) for number in range(self._clients)]
                try:
                    for turn in range(restarts):
                        await self._restart(turn % len(self._ports), url)
                    while self.found.calls < calls:  # noqa: ASYNC110 (clients send no events)
                        await asyncio.sleep(0.1)
                finally:
                    self._is_over.set()
                    await asyncio.gather(*clients)
        finally:
            for each in replicas:
                await asyncio.to_thread(each.end, signal.SIGKILL)
        return self.found

    async def _restart(self, index: int, url: str) -> None:
        code = await asyncio.to_thread(self.cluster.replicas[index].end)
        self.found.codes[code] += 1
        fresh = self.cluster.replicas[index] = self.start(self._ports[index])
        await asyncio.to_thread(fresh.wait_until_it_serves)
        async with asyncio.timeout(WITHIN_S):
            await all_ready(url, len(self._ports))
        self.found.restarts += 1

    async def _call(self, url: str, number: int) -> None:
        has_session, keeps = bool(number % 2), number % 4 > 1
        connector = aiohttp.TCPConnector(force_close=not keeps)
        limit = aiohttp.ClientTimeout(WITHIN_S)
        async with aiohttp.ClientSession(connector=connector, timeout=limit) as http:
            client = SessionClient(url, http)
            client.headers.pop("Connection", None)
            if has_session:
                await client.open()
            for turn in itertools.count():
                if self._is_over.is_set():
                    return
                began = time.monotonic()
                try:
                    result = await client.call("add", a=turn, b=number)
                    assert result["structuredContent"] == {"result": turn + number}, result
                    self.found.calls += 1
                except (aiohttp.ClientError, AssertionError, KeyError, TimeoutError) as error:
                    kind = f"{'session' if has_session else 'no session'}, {'kept' if keeps else 'new'}"
                    self.found.failures.append(f"{began - self._began:.1f} s ({kind}): {error!r}"[:200])
                self.found.longest_s = max(self.found.longest_s, time.monotonic() - began)
                await asyncio.sleep(PAUSE_S)


async def run(
    restarts: int,
    calls: int,
    place: Path,
    lame_duck_s: int = 5,
    *,
    clients: int = CLIENTS,
    replicas: int = REPLICAS,
) -> Restarts:
    """Restart replicas `restarts` times under at least `calls` calls."""
    with engine_server() as engine:
        rolling = RollingRestart(place, engine.url, lame_duck_s, clients, replicas)
        return await rolling.run(restarts, calls)


def main() -> int:
    """Run from the command line; return 1 if a call failed or a replica did not end cleanly."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.rolling", description=__doc__)
    parser.add_argument("restarts", type=int, nargs="?", default=30)
    parser.add_argument("--calls", type=int, default=60_000)
    parser.add_argument("--lame-duck-s", type=int, default=5)
    given = parser.parse_args()
    place = Path(mkdtemp())
    try:
        found = asyncio.run(run(given.restarts, given.calls, place, given.lame_duck_s))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    sys.stdout.write(f"{found}\n")
    return 1 if found.failures or set(found.codes) - {0} else 0


if __name__ == "__main__":
    sys.exit(main())
