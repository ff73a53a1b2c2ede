"""Calls a server over HTTP from many connections, one call in flight on each. A separate process:

`python -m tests.bench.load '{"port": 3333, "path": "/mcp/echo", "era": "stateless", ...}'` prints what it
measured as one JSON line. The fields are those of `Job`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from array import array
from dataclasses import asdict, dataclass

from mcpdesk.hosting.core_loop.core_thread import loop_factory
from tests.bench.caller import Caller, Cycler
from tests.bench.measured import Measured
from tests.bench.messages import ASKS, EVENT, Address
from tests.bench.process import ROOT, cpu_s, stolen_s

WARM_S = 0.4
SLICE_S = 0.01
PREPARE_S = 30.0
LEAVE_S = 10.0
LATEST_S = 30.0
"""Seconds that the first answer may take."""
CYCLE = "cycle"


@dataclass(frozen=True, slots=True)
class Job:
    """Options of a load. `rate` is calls a second (0: no limit). `calls`, if not 0, ends it early."""

    port: int
    path: str
    era: str
    seconds: float = 2.0
    connections: int = 32
    rate: float = 0.0
    calls: int = 0
    ask: str = "echo"
    """A name in `ASKS`, or `cycle`."""
    pid: int = 0
    """Process id of the server, whose CPU time is measured."""
    headers: tuple[str, ...] = ()
    """Headers of every request."""
    opened_at: int = 0
    """Port of another replica that opens the sessions; 0: `port`."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start it in a separate process."""
        command = [sys.executable, "-m", "tests.bench.load", json.dumps(asdict(self))]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    def run(self) -> Measured:
        """Run the load and return its measurement.

        Raises: RuntimeError when a call was refused.
        """
        return measured_by(self.start())


def measured_by(load: subprocess.Popen[bytes]) -> Measured:
    """Wait for a started load and return its measurement.

    Raises: RuntimeError when a call was refused.
    """
    out, _ = load.communicate()
    said = json.loads(out or '{"error": "the load ended early"}')
    if "error" in said:
        raise RuntimeError(f"{load.args!r}: {said['error']}")
    return Measured(**said)


class Load:
    """All connections of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.sent = self.answered = 0
        """Calls sent; answers, or the events in them."""
        self.error = ""
        self._callers: list[Caller] = []
        self._latencies = array("d")
        self._last = 0.0
        """Time of the last answer."""
        self._over = asyncio.Event()

    def count(self, answer: bytes, began: float) -> bool:
        """Count an answer; True if the connection must send the next call at once."""
        self._last = time.perf_counter()
        self._latencies.append(self._last - began)
        self.answered += answer.count(EVENT) if self.job.ask == "tick" else 1
        if answer[9:12] != b"200" or (b'"isError":false' not in answer and b'"error":' in answer):
            self.fail(answer[:3000].decode(errors="replace"))
        if self.job.calls and self.answered >= self.job.calls:
            self._over.set()
        return not self.job.rate and not self._over.is_set()

    def fail(self, why: str) -> None:
        """End the load; the first reason is reported."""
        if not self._over.is_set():
            self.error = why
            self._over.set()

    async def run(self) -> dict[str, float] | dict[str, str]:
        """Warm up, measure, and return the result."""
        try:
            return await self._run()
        finally:
            for caller in self._callers:
                caller.disconnect()
            await asyncio.sleep(0)

    async def _run(self) -> dict[str, float] | dict[str, str]:
        await self._connect()
        callers = self._callers
        pace_task = asyncio.create_task(self._go(callers))
        if not self.job.calls:
            await self._until(WARM_S)
        measured = await self._measure()
        self._over.set()
        await pace_task
        if self.error:
            return {"error": self.error}
        async with asyncio.timeout(LEAVE_S):
            await asyncio.gather(*(caller.leave() for caller in callers))
        return asdict(measured)

    async def _connect(self) -> None:
        job, loop = self.job, asyncio.get_running_loop()
        address = Address(job.port, job.path, tuple(job.headers))
        kind, ask = (Cycler, ASKS["echo"]) if job.ask == CYCLE else (Caller, ASKS[job.ask])
        async with asyncio.timeout(PREPARE_S):
            for _ in range(job.connections):
                _, caller = await loop.create_connection(
                    lambda: kind(self, address, job.era, ask), "127.0.0.1", job.port
                )
                self._callers.append(caller)
                await caller.prepare(await self._opened() if job.opened_at else "")

    async def _opened(self) -> str:
        """Open a session at another replica."""
        job = self.job
        address = Address(job.opened_at, job.path, tuple(job.headers))
        _, opener = await asyncio.get_running_loop().create_connection(
            lambda: Caller(self, address, job.era, ASKS["echo"]), "127.0.0.1", job.opened_at
        )
        await opener.prepare()
        opener.disconnect()
        return opener.session

    async def _measure(self) -> Measured:
        """Measure from one answer to another, so that a few long ones are not cut at the ends."""
        began = self._last or time.perf_counter()
        self.answered, self._latencies = 0, array("d")
        wall, busy, used, stolen = time.perf_counter(), time.process_time(), self._used_s(), stolen_s()
        await self._until(self.job.seconds)
        if not self.answered:
            await self._until_answered()
        used, busy = self._used_s() - used, time.process_time() - busy
        wall, stolen = time.perf_counter() - wall, stolen_s() - stolen
        times = sorted(self._latencies)
        return Measured(
            rate=self.answered / max(1e-9, self._last - began),
            cpu_us=1e6 * used / max(1, self.answered),
            p50_ms=1000 * _quantile(times, 0.5),
            p99_ms=1000 * _quantile(times, 0.99),
            load_busy=busy / wall,
            server_busy=used / wall,
            stolen=stolen / wall / (os.cpu_count() or 1),
        )

    def _used_s(self) -> float:
        return cpu_s(self.job.pid) if self.job.pid else 0.0

    async def _go(self, callers: list[Caller]) -> None:
        """Start every connection; with a rate, send the due calls every hundredth of a second."""
        if not self.job.rate:
            for caller in callers:
                caller.call()
            return
        began = time.perf_counter()
        while not self._over.is_set():
            idle = [caller for caller in callers if not caller.is_busy]
            due = int((time.perf_counter() - began) * self.job.rate) - self.sent
            for caller in idle[: max(0, due)]:
                caller.call()
            await asyncio.sleep(SLICE_S)

    async def _until(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return

    async def _until_answered(self) -> None:
        end = time.perf_counter() + LATEST_S
        while not self.answered and not self._over.is_set():
            await asyncio.sleep(SLICE_S)
            if time.perf_counter() > end:
                self.fail("no answer came")


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def _main(job: Job) -> None:
    print(json.dumps(await Load(job).run()), flush=True)


if __name__ == "__main__":
    gc.disable()  # a collection here would be a slow answer there
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_main(Job(**json.loads(sys.argv[1]))))
