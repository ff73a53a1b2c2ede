"""One load on one server: connections that call, jobs that run, and samples of its memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.load import clients
from tests.load.tally import Tally
from tests.support.folders import write

ROOT = Path(__file__).parents[2]
NAME = "loaded"
LOOKS = 60
"""Number of memory samples."""
TOOLS = '''
    """What is asked for."""

    import asyncio

    from mcpdesk import Context, tool


    @tool
    async def echo(text: str, ctx: Context) -> str:
        """Say it again."""
        await ctx.progress(1, 1)
        return text


    @tool(task="optional")
    async def work(text: str) -> dict[str, str]:
        """Take a moment."""
        await asyncio.sleep(WORK_S)
        return {"text": text}
    '''


@dataclass(frozen=True)
class Load:
    """Size of the load.

    A third of the connections each: single requests, sessions, WebSockets. Half of the jobs each: jobs of the
    gateway, tasks of the protocol.
    """

    connections: int = 500
    jobs: int = 50
    seconds: float = 60.0
    pause_s: float = 0.5
    """Seconds between two calls of a connection."""
    work_s: float = 1.0
    """Duration of a job."""


@asynccontextmanager
async def served(folder: Path, load: Load) -> AsyncIterator[tuple[str, int]]:
    """Run a server in a separate process; yield its address and process id. It has to exit with 0."""
    write(
        folder, {"mcp.json": f'{{"name": "{NAME}"}}', "tools/t.py": TOOLS.replace("WORK_S", str(load.work_s))}
    )
    # Kept little, so that what is kept by design is full soon.
    kept = ("--capture-memory-bytes", "2M", "--resume-bytes", "4K", "--job-ttl-s", "5")
    limits = (*kept, "--max-tasks", "10000", "--jobs-at-once", "100")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcpdesk", "serve", str(folder), "--port", "0", *limits,
        cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "MCPDESK_STATE_DIR": str(folder.parent / "state")},
    )  # fmt: skip
    assert process.stderr is not None
    said: list[str] = []
    try:
        async for raw in process.stderr:
            said.append(raw.decode().rstrip())
            if f"serving {NAME} at" in said[-1]:
                break
        else:
            raise RuntimeError("\n".join(said))
        stderr_task = asyncio.create_task(process.stderr.read())
        yield said[-1].rpartition(" ")[2].rpartition("/mcp/")[0], process.pid
        process.terminate()
        code = await process.wait()
        if code:
            raise RuntimeError(f"the server ended with {code}: {(await stderr_task).decode()[-2000:]}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run(load: Load) -> Tally:
    """Serve, load, and let all clients finish their current call."""
    tally, over = Tally(), asyncio.Event()
    with TemporaryDirectory() as place:
        async with served(Path(place) / NAME, load) as (base, pid):
            watch_task = asyncio.create_task(_watch(psutil.Process(pid), load, tally))
            try:
                async with asyncio.TaskGroup() as group:
                    for work in _workers(base, load, tally, over):
                        group.create_task(work)
                    await asyncio.sleep(load.seconds)
                    over.set()
            finally:
                watch_task.cancel()
            # The server notices a moment later that the last clients have left.
            async with asyncio.timeout(clients.LATEST_S):
                while (await _count(base, tally))["mcpdesk_http_connections"] > 1:
                    pass
    return tally


def _workers(base: str, load: Load, tally: Tally, over: asyncio.Event) -> list[clients.Work]:
    url = f"{base}/mcp/{NAME}"
    kinds = (clients.sessionless, clients.in_session, clients.on_a_socket)
    found = [
        kinds[number % len(kinds)](url, f"connection {number}", tally, load.pause_s, over)
        for number in range(load.connections)
    ]
    for number in range(load.jobs):
        if number % 2:
            found.append(clients.tasks(url, f"task {number}", tally, over))
        else:
            found.append(clients.jobs(base, NAME, f"job {number}", tally, over))
    return found


async def _watch(process: psutil.Process, load: Load, tally: Tally) -> None:
    while True:
        tally.memory.append(process.memory_info().rss)
        await asyncio.sleep(load.seconds / LOOKS)


async def _count(base: str, tally: Tally) -> dict[str, float]:
    """Read the server's counters by name; the values of all labels are added."""
    async with aiohttp.ClientSession() as client, client.get(f"{base}/metrics") as answer:
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(await answer.text()):
            for sample in family.samples:
                if "quantile" not in sample.labels:
                    found[sample.name] = found.get(sample.name, 0) + sample.value
    tally.counted = found
    return found
