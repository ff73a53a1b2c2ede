"""Calls a tool over HTTP from many connections, one call in flight on each. A process of its own:

`python -m tests.bench.load '{"port": 3333, "path": "/mcp/echo", "era": "stateless", ...}'` prints what it
measured as one JSON line. The fields are those of `Job`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import cast

from mcpdesk.hosting.loops import loop_factory
from tests.bench.answer import AnswerReader, session_of
from tests.bench.messages import FIRST_ID, INITIALIZED, http_call, http_head, initialize
from tests.bench.process import ROOT

WARM_S = 0.4
SLICE_S = 0.01
PREPARE_S = 10.0


@dataclass(frozen=True, slots=True)
class Job:
    """What to do. `rate` is calls a second, 0: as many as are answered. `calls`, if not 0, ends it early."""

    port: int
    path: str
    era: str
    seconds: float = 2.0
    connections: int = 32
    rate: float = 0.0
    calls: int = 0
    tool: str = "echo"

    def start(self) -> subprocess.Popen[bytes]:
        """Run it in a process of its own."""
        command = [sys.executable, "-m", "tests.bench.load", json.dumps(asdict(self))]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)

    def run(self) -> float:
        """Calls answered a second.

        Raises: RuntimeError when a call was refused.
        """
        out, _ = self.start().communicate()
        said = json.loads(out or '{"error": "the load ended early"}')
        if "error" in said:
            raise RuntimeError(f"{self}: {said['error']}")
        return float(said["rate"])


class Caller(asyncio.Protocol):
    """One connection. Sends the next call as soon as the last is answered, unless the load is paced."""

    transport: asyncio.Transport

    def __init__(self, load: Load) -> None:
        self._load = load
        self._reader = AnswerReader()
        self._waiting: asyncio.Future[bytes] | None = None
        self.before = self.after = b""
        self.is_busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by descent

    def data_received(self, data: bytes) -> None:
        """Count an answer, or hand it to whoever waits for it."""
        whole = self._reader.feed(data)
        if whole is None:
            return
        if self._waiting is not None:
            self._waiting.set_result(whole)
            self._waiting = None
        elif self._load.count(whole):
            self.call()
        else:
            self.is_busy = False

    def connection_lost(self, exc: Exception | None) -> None:
        """A server that hangs up spoils the figure."""
        self._load.fail(f"connection lost: {exc}")

    def call(self) -> None:
        """Send one call."""
        self.is_busy = True
        self._load.sent += 1
        self.transport.write(b"%b%d%b" % (self.before, FIRST_ID + self._load.sent, self.after))

    async def prepare(self, job: Job) -> None:
        """Open a session where the era has them, and make the bytes of the call."""
        session = ""
        if job.era == "handshake":
            session = session_of(await self._ask(job, initialize()))
            await self._ask(job, INITIALIZED, session)
        self.before, self.after = http_call(job.port, job.path, job.era, session, job.tool)

    async def _ask(self, job: Job, body: bytes, session: str = "") -> bytes:
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(http_head(job.port, job.path, len(body), "handshake", session) + body)
        return await self._waiting


class Load:
    """All connections of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.sent = self.answered = 0
        self.error = ""
        self._over = asyncio.Event()

    def count(self, answer: bytes) -> bool:
        """Count an answer; True when the connection shall go on at once."""
        self.answered += 1
        if answer[9:12] != b"200" or (b'"isError":false' not in answer and b'"error"' in answer):
            self.fail(answer.decode(errors="replace"))
        if self.job.calls and self.answered >= self.job.calls:
            self._over.set()
        return not self.job.rate and not self._over.is_set()

    def fail(self, why: str) -> None:
        """End the load; the first reason counts."""
        if not self._over.is_set():
            self.error = why
            self._over.set()

    async def run(self) -> dict[str, float | str]:
        """Warm up, measure, tell."""
        loop = asyncio.get_running_loop()
        callers = [
            (await loop.create_connection(lambda: Caller(self), "127.0.0.1", self.job.port))[1]
            for _ in range(self.job.connections)
        ]
        async with asyncio.timeout(PREPARE_S):
            for caller in callers:
                await caller.prepare(self.job)
        began = time.perf_counter()
        pacing_aio = asyncio.create_task(self._go(callers))
        if not self.job.calls:
            await self._until(WARM_S)
            began, self.answered = time.perf_counter(), 0
        await self._until(self.job.seconds)
        answered, seconds = self.answered, time.perf_counter() - began
        self._over.set()
        await pacing_aio
        return {"error": self.error} if self.error else {"rate": answered / seconds}

    async def _go(self, callers: list[Caller]) -> None:
        """Start every connection; with a rate, send whatever is due every hundredth of a second."""
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


async def _main(job: Job) -> None:
    print(json.dumps(await Load(job).run()), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_main(Job(**json.loads(sys.argv[1]))))
