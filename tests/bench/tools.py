"""The built-in tools beside plain programs, files, the state file and the clock."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tests.bench.desk import TO_KEY, desk, keys
from tests.bench.figure import OURS, Effort, Figure, Goal, beside
from tests.bench.messages import call
from tests.bench.pipe import Pipe
from tests.bench.process import MCPDESK

BUILTINS = ("BackgroundBash", "Bash", "ReadBgOutput", "SetCallback", "TaskManager")
ERA = "handshake"
TO_SPAWN = Goal(1 / 1.5)
TO_READ = Goal(0.5)
CHANGES = Goal(500.0)
LATE = Goal(50.0, at_most=True)
MIB = 1 << 20
OUTPUT_BYTES = 200_000_000
WRITE = f"yes 'a line of what a program writes, of the usual length' | head -c {OUTPUT_BYTES}"
DELAY_S = 1
CALLBACKS = 5
JOBS = 200
TALK = "while sleep 0.1; do echo hello; done"
SETTLE_S = 3.0
_READER = '''
import os
from dataclasses import dataclass


@dataclass
class Piece:
    """A piece of a file."""

    output: str


async def piece(path: str, start: int) -> Piece:
    """Read a piece of a file."""
    with open(path, "rb") as file:
        return Piece(os.pread(file.fileno(), 1 << 20, start).decode("utf-8", "replace"))
'''
"""A tool of the folder; its results contain the text twice, like those of ReadBgOutput."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls over stdio, one by one by default; keys of a desk with background jobs."""
    yield from _spawning(effort)
    yield from _reading(effort)
    for in_flight in (1, 16):
        changes = [_changes(effort.seconds, in_flight) for _ in range(effort.rounds)]
        yield Figure(f"TaskManager, {in_flight} in flight", "/s", changes, goal=CHANGES)
    late = [_latest() for _ in range(effort.rounds)]
    yield Figure(f"SetCallback, latest of {CALLBACKS}", "ms", late, goal=LATE)
    yield from _many_jobs(effort)


def _spawning(effort: Effort) -> Iterator[Figure]:
    """`bash -c true` by the tool, and by asyncio."""
    ask = call("Bash", {"command": "true"})
    with _server() as (pipe, _):
        samples = effort.interleaved(
            {
                OURS: lambda: pipe.load(ask, ERA, effort.seconds, 1).rate,
                "asyncio": lambda: asyncio.run(_spawns(effort.seconds)),
            }
        )
    yield from beside("Bash true", "/s", samples, {"asyncio": TO_SPAWN})


async def _spawns(seconds: float) -> float:
    """Programs a second."""
    pipe, began, count = asyncio.subprocess.PIPE, time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        program = await asyncio.create_subprocess_exec(
            "bash", "-c", "true", stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        await program.communicate()
        count += 1
    return count / (time.perf_counter() - began)


def _reading(effort: Effort) -> Iterator[Figure]:
    """Read a program's output with the tool, and its file with a folder's own tool and with a plain loop."""
    with _server() as (pipe, _):
        wrote = _written(pipe)
        samples = effort.interleaved(
            {
                OURS: partial(_by_the_tool, pipe),
                "own tool": partial(_in_pieces, partial(_by_own_tool, pipe, wrote)),
                "file": partial(_in_pieces, partial(_from_disk, Path(wrote["output_file"]))),
            }
        )
    yield from beside("ReadBgOutput, 200 MB", "MB/s", samples, {"own tool": TO_READ})


def _written(pipe: Pipe) -> dict[str, Any]:
    """A background task that has written all of its output."""
    task = _call(pipe, "BackgroundBash", {"command": WRITE})
    while Path(task["output_file"]).stat().st_size < OUTPUT_BYTES:
        time.sleep(0.05)
    return task


def _by_the_tool(pipe: Pipe) -> float:
    """MB a second."""
    ask = call("ReadBgOutput", {"task_id": _written(pipe)["task_id"]})
    began = time.perf_counter()
    pipe.ask(ask, ERA)
    return OUTPUT_BYTES / 1e6 / (time.perf_counter() - began)


def _in_pieces(read: Callable[[int], object]) -> float:
    """MB a second."""
    began = time.perf_counter()
    for start in range(0, OUTPUT_BYTES, MIB):
        read(start)
    return OUTPUT_BYTES / 1e6 / (time.perf_counter() - began)


def _by_own_tool(pipe: Pipe, task: dict[str, Any], start: int) -> object:
    return pipe.ask(call("piece", {"path": task["output_file"], "start": start}), ERA)


def _from_disk(path: Path, start: int) -> object:
    with path.open("rb") as file:
        return os.pread(file.fileno(), MIB, start).decode("utf-8", "replace")


def _changes(seconds: float, in_flight: int) -> float:
    """Tasks created a second, each confirmed by its answer."""
    with _server() as (pipe, _):
        return pipe.load(
            call("TaskManager", {"action": "create", "query": "sail"}), ERA, seconds, in_flight
        ).rate


def _latest() -> float:
    """Largest delay of some callbacks in milliseconds, the call that set it included."""
    with _server() as (pipe, _):
        _call(pipe, "SetCallback", {"action": "list"})
        return max(_one_callback(pipe) for _ in range(CALLBACKS))


def _one_callback(pipe: Pipe) -> float:
    began = time.perf_counter()
    came = pipe.ask(call("SetCallback", {"action": "set", "message": "tea", "delay_seconds": DELAY_S}), ERA)
    while b'"logger":"callback"' not in came:
        came = pipe.take()
    return 1000 * (time.perf_counter() - began - DELAY_S)


def _many_jobs(effort: Effort) -> Iterator[Figure]:
    """Delay of keys in a desk while many of its programs write."""
    with TemporaryDirectory() as place:
        folder = _folder(Path(place))
        with (
            desk(folder) as (screen, _),
            closing(Pipe((*MCPDESK, "stdio", str(folder)), Path(place))) as pipe,
        ):
            pipe.shake_hands()
            for _ in range(JOBS):
                pipe.ask(call("BackgroundBash", {"command": TALK}), ERA)
            time.sleep(SETTLE_S)
            used, began = _own_cpu_s(screen.pid), time.perf_counter()
            typed, paused = zip(*(keys(screen) for _ in range(effort.rounds)), strict=True)
            busy = 100 * (_own_cpu_s(screen.pid) - used) / (time.perf_counter() - began)
    yield Figure(f"key typed, {JOBS} jobs", "ms", typed, goal=TO_KEY)
    yield Figure(f"key p, {JOBS} jobs", "ms", paused, goal=TO_KEY)
    yield Figure(f"desk with {JOBS} jobs, CPU", "%", [busy])


def _own_cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def _server() -> Iterator[tuple[Pipe, Path]]:
    """Start a separate core with the tools in a session; yield its pipe and its folder."""
    with TemporaryDirectory() as place:
        folder = _folder(Path(place))
        with closing(Pipe((*MCPDESK, "stdio", "--alone", str(folder)), Path(place))) as pipe:
            pipe.shake_hands()
            yield pipe, folder


def _folder(place: Path) -> Path:
    folder = place / "toolbox"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "piece.py").write_text(_READER)
    (folder / "mcp.json").write_text(json.dumps({"name": "toolbox", "builtins": BUILTINS}))
    return folder


def _call(pipe: Pipe, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Structured content of a tool's answer."""
    answer = json.loads(pipe.ask(call(name, arguments), ERA))
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found
