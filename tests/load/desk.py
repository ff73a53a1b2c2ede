"""Memory of the real desk in a terminal while clients call: `python -m tests.load.desk`.

The desk runs in a pseudo-terminal. Connections that are kept call one tool as fast as it answers. The
resident memory is printed after the calls that fill what is kept on purpose, and after as many again on each
screen, each time when the screen has come to rest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pexpect
import psutil

from tests.support.folders import write
from tests.support.terminal import Desk

SCREENS = ("workbench", "traffic", "activity", "clients", "logs")
ALLOWED_MIB = 20.0
RESTING_PERCENT = 25.0
"""Of one processor: a screen that uses less has seen everything."""
TOOL = '''
"""A tool."""

from mcpdesk import tool


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text
'''
_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")


async def call_many(port: int, count: int, connections: int, rate: float, alive: Callable[[], None]) -> None:
    """Call `echo` `count` times over kept connections; every answer must be a result."""
    left, begun = iter(range(count)), asyncio.get_running_loop().time()

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in left:
            if rate:  # a screen that keeps up pairs every frame; one that cannot leaves them in the file
                await asyncio.sleep(begun + number / rate - asyncio.get_running_loop().time())
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
                b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s"
                % (port, len(body), body)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            found = _LENGTH.search(head)
            if found is None:
                raise RuntimeError(f"no plain answer: {head!r}")
            answer = await reader.readexactly(int(found[1]))
            if b'"result"' not in answer:
                raise RuntimeError(f"no result: {answer!r}")
        writer.close()

    async with asyncio.timeout(1800):
        await asyncio.gather(*(one() for _ in range(connections)))
    alive()


def main() -> int:
    """Measure; 1 when a screen added more than is allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.desk", description=__doc__)
    parser.add_argument("--calls", type=int, default=300_000, help="calls before, and on each screen")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rate", type=float, default=2500, help="calls a second at most; 0: any number")
    parser.add_argument("--screens", default=",".join(SCREENS), help="which, by comma")
    given = parser.parse_args()
    with TemporaryDirectory() as place:
        folder = write(Path(place) / "loaded", {"mcp.json": '{"name": "loaded"}', "tools/t.py": TOOL})
        environ = {"MCPDESK_STATE_DIR": f"{place}/state", "MCPDESK_CONFIG_DIR": f"{place}/config"}
        with Desk([str(folder), "--port", "0"], columns=120, rows=40, environ=environ) as desk:
            port = int(re.search(r"127\.0\.0\.1:(\d+)/mcp", desk.see(r"127\.0\.0\.1:\d+/mcp"))[1])  # type: ignore[index]
            process, over = psutil.Process(desk.process.pid), threading.Event()
            drain = threading.Thread(target=_drain, args=(desk, over), daemon=True)
            drain.start()

            def rss() -> float:
                while process.cpu_percent(1.0) > RESTING_PERCENT:
                    pass  # the screen pairs what came
                return float(process.memory_info().rss) / (1 << 20)

            def alive() -> None:
                if not desk.process.isalive():
                    raise RuntimeError("the desk has ended")

            failed = False
            sys.stdout.write(f"at start: {rss():.1f} MiB\n")
            asyncio.run(call_many(port, given.calls, given.connections, given.rate, alive))
            before = rss()
            sys.stdout.write(f"after {given.calls:,} calls: {before:.1f} MiB\n")
            sys.stdout.flush()
            for name in given.screens.split(","):
                os.write(desk.process.child_fd, str(SCREENS.index(name) + 1).encode())
                asyncio.run(call_many(port, given.calls, given.connections, given.rate, alive))
                now = rss()
                failed |= now - before > ALLOWED_MIB
                sys.stdout.write(f"{given.calls:,} more on {name}: {now:.1f} MiB ({now - before:+.1f})\n")
                sys.stdout.flush()
                before = now
            over.set()
            drain.join()
    return failed


def _drain(desk: Desk, over: threading.Event) -> None:
    """Read what the desk draws, as a terminal does."""
    while not over.is_set():
        try:
            desk.process.read_nonblocking(1 << 16, timeout=0.2)
        except pexpect.TIMEOUT:
            continue
        except (pexpect.EOF, OSError):
            return


if __name__ == "__main__":
    sys.exit(main())
