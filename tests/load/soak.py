"""Memory, disk, descriptors and threads over many calls: `python -m tests.load.soak serve`, or `... desk`.

Connections that are kept call one tool as fast as it answers. The desk runs in a pseudo-terminal and shows
another screen after every step. A line is printed after each step; the exit code is 1 if memory grew by more
than allowed after all bounded buffers were full.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pexpect
import psutil

from tests.support.folders import write
from tests.support.terminal import Desk

SCREENS = (
    ("workbench", "1"), ("traffic", "2"), ("waterfall", "2w"), ("activity", "w3"), ("clients", "4"),
    ("logs", "5"), ("statistics", "6"),
)  # fmt: skip
"""Names, and the keys that lead there from the one before."""
ALLOWED_MIB = 10.0
"""Growth for a million calls."""
MILLION = 1_000_000
RESTING_PERCENT = 25.0
"""Percent of one processor: a program that uses less has handled everything."""
REST_LOOKS = 60
TOOL = '''
"""A tool."""

from mcpdesk import tool


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text
'''
_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
_ADDRESS = r"127\.0\.0\.1:(\d+)/mcp"


class Sample(NamedTuple):
    """State of the program after some calls."""

    calls: int
    memory: float
    """MiB resident."""
    disk: float
    """MiB in the state folder."""
    descriptors: int
    threads: int


class Soaked(NamedTuple):
    """A running program."""

    port: int
    pid: int
    is_alive: Callable[[], bool]
    press: Callable[[str], None]
    """Sends keys to its screen, if it has one."""


async def call_many(port: int, first: int, count: int, connections: int) -> None:
    """Call `echo` `count` times over kept connections; every answer must be a result."""
    left = iter(range(first, first + count))

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            body = json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": "tools/call",
                    "params": {"name": "echo", "arguments": {"text": f"call {number}"}},
                }
            ).encode()
            writer.write(
                b"POST /mcp/loaded HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                b"Accept: */*\r\nContent-Length: %d\r\n\r\n%s" % (port, len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(head)
            if found is None:  # only a client that names streams gets one for a slow call
                raise RuntimeError(f"no plain answer: {head!r}")
            answer = await reader.readexactly(int(found[1]))
            if b'"result"' not in answer:
                raise RuntimeError(f"no result: {answer!r}")
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))


@contextlib.contextmanager
def served(folder: Path, environ: dict[str, str]) -> Iterator[Soaked]:
    """Run `mcpdesk serve` in a separate process."""
    argv = [sys.executable, "-m", "mcpdesk", "serve", str(folder), "--port", "0"]
    log = folder.parent / "stderr"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stderr=stderr, env={**os.environ, **environ}
        ) as process,
    ):
        try:
            while (found := re.search(_ADDRESS, log.read_text())) is None:
                if process.poll() is not None:
                    raise RuntimeError(log.read_text())
                time.sleep(0.1)
            yield Soaked(int(found[1]), process.pid, lambda: process.poll() is None, lambda keys: None)
        finally:
            process.terminate()


@contextlib.contextmanager
def shown(folder: Path, environ: dict[str, str]) -> Iterator[Soaked]:
    """The desk in a pseudo-terminal, whose output is read as a terminal does."""
    with Desk([str(folder), "--port", "0"], columns=120, rows=40, environ=environ) as desk:
        found = re.search(_ADDRESS, desk.see(_ADDRESS))
        assert found is not None and desk.process.pid is not None
        over = threading.Event()
        drain = threading.Thread(target=_drain, args=(desk, over), daemon=True)
        drain.start()

        def press(keys: str) -> None:
            for key in keys:
                os.write(desk.process.child_fd, key.encode())

        try:
            yield Soaked(
                int(found[1]),
                desk.process.pid,
                desk.process.isalive,
                press,
            )
        finally:
            over.set()
            drain.join()


def look(process: psutil.Process, state: Path, calls: int) -> Sample:
    """Sample a program once it is idle, or after a while."""
    for _ in range(REST_LOOKS):
        if process.cpu_percent(1.0) < RESTING_PERCENT:
            break
    size = 0
    for path in state.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    rss = process.memory_info().rss
    return Sample(calls, rss / (1 << 20), size / (1 << 20), process.num_fds(), process.num_threads())


def growth(samples: list[Sample], warm: int) -> float | None:
    """MiB that memory grew by for a million calls, after `warm` calls; None before there were enough.

    The slope of the line that fits best: single samples go up and down with the collector.
    """
    fit = [sample for sample in samples if sample.calls >= warm]
    if len(fit) < 3:
        return None
    middle = sum(each.calls for each in fit) / len(fit), sum(each.memory for each in fit) / len(fit)
    above = sum((each.calls - middle[0]) * (each.memory - middle[1]) for each in fit)
    return above / sum((each.calls - middle[0]) ** 2 for each in fit) * MILLION


def main() -> int:
    """Run the measurement; return 1 if memory grew by more than allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.soak", description=__doc__)
    parser.add_argument("program", choices=("serve", "desk"))
    parser.add_argument("--calls", type=int, default=2 * MILLION)
    parser.add_argument("--every", type=int, default=50_000, help="calls between two lines")
    parser.add_argument(
        "--warm", type=int, default=MILLION, help="calls until rings are full and the allocator is settled"
    )
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--keep", default="256M", help="capture_keep_bytes")
    given = parser.parse_args()
    samples: list[Sample] = []
    with TemporaryDirectory() as place:
        folder = write(Path(place) / "loaded", {"mcp.json": '{"name": "loaded"}', "tools/t.py": TOOL})
        state = Path(place) / "state"
        environ = {
            "MCPDESK_STATE_DIR": str(state),
            "MCPDESK_CONFIG_DIR": f"{place}/config",
            "MCPDESK_CAPTURE_KEEP_BYTES": given.keep,
        }
        with (served if given.program == "serve" else shown)(folder, environ) as program:
            process = psutil.Process(program.pid)
            _print("     calls    calls/s  memory MiB  disk MiB  descriptors  threads  screen")
            for step in range(given.calls // given.every):
                name, keys = ("", "") if given.program == "serve" else SCREENS[step % len(SCREENS)]
                program.press(keys)
                began = time.monotonic()
                asyncio.run(call_many(program.port, step * given.every, given.every, given.connections))
                rate = given.every / (time.monotonic() - began)
                if not program.is_alive():
                    raise RuntimeError("the program has ended")
                now = look(process, state, (step + 1) * given.every)
                samples.append(now)
                _print(
                    f"{now.calls:>10,} {rate:>10,.0f} {now.memory:>11.1f} {now.disk:>9.1f}"
                    f" {now.descriptors:>12} {now.threads:>8}  {name}"
                )
    grown = growth(samples, given.warm)
    if grown is None:
        _print("too few calls to tell how memory grows")
        return 0
    _print(f"{grown:+.1f} MiB for a million calls, {ALLOWED_MIB:.0f} are allowed")
    return int(grown > ALLOWED_MIB)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _drain(desk: Desk, over: threading.Event) -> None:
    while not over.is_set():
        try:
            desk.process.read_nonblocking(1 << 16, timeout=0.2)
        except pexpect.TIMEOUT:
            continue
        except (pexpect.EOF, OSError):
            return


if __name__ == "__main__":
    sys.exit(main())
