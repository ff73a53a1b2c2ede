"""Kill a loaded server repeatedly, and report how many of its answers the captures lack.

    python -m tests.load.kills 100

The cost of a kill is the time from the earliest answer that is missing in the capture to the kill.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from mcpdesk.recorder.archive import Archive
from tests.load.load import NAME, Load, served

MAX_LOST_S = 0.25
ID = re.compile(rb'"id":(\d+)')
CALLERS = (1, 4, 16, 64)
SIZES = (10, 300, 5_000, 200_000)
"""Sizes of the echoed texts in characters."""


@dataclass(frozen=True)
class Kill:
    """Outcome of the kill of one server."""

    answered: int
    lost: int
    """Answers that are not in the capture."""
    lost_s: float
    """Seconds between the first lost answer and the kill."""
    damaged: int
    """Unreadable lines; the last one may be cut off."""
    is_in_order: bool
    """True if the capture holds every frame up to its last one."""


async def kill_once(seconds: float, count: int, size: int) -> Kill:
    """Load a server from `count` clients; kill it some time after the first answer."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "folder"
        answered: dict[int, float] = {}
        begun = asyncio.Event()
        killed = 0.0
        try:
            async with served(folder, Load()) as (url, number):
                host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
                callers = [
                    asyncio.create_task(
                        _call(host, int(port), range(first, 1 << 30, count), size, answered, begun)
                    )
                    for first in range(count)
                ]
                began = asyncio.create_task(begun.wait())
                await asyncio.wait({began, *callers}, return_when=asyncio.FIRST_COMPLETED)
                began.cancel()
                await asyncio.sleep(seconds)
                killed = time.time()
                os.kill(number, signal.SIGKILL)
                await asyncio.gather(*callers)
        except (RuntimeError, ProcessLookupError):
            pass  # It did not end by itself: that is what it was killed for.
        (path,) = (Path(place) / "state").rglob("captures/*.jsonl")
        return _judged(path, answered, killed)


async def _call(
    host: str, port: int, numbers: range, size: int, answered: dict[int, float], begun: asyncio.Event
) -> None:
    """Call one after the other over one connection until it breaks."""
    reader, writer = await asyncio.open_connection(host, port)
    arguments = {"text": "x" * size}
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo", "arguments": arguments}}
    head = f"POST /mcp/{NAME} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    head += "Accept: application/json, text/event-stream\r\n"
    try:
        for number in numbers:
            body = orjson.dumps({"id": number} | call)
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            headers = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length:" in headers:
                await reader.readexactly(int(headers.partition(b"content-length:")[2].split(b"\r\n", 1)[0]))
            else:
                await reader.readuntil(b"\r\n0\r\n\r\n")
            answered[number] = time.time()
            begun.set()
    except (OSError, EOFError):
        writer.close()


def _judged(path: Path, answered: dict[int, float], killed: float) -> Kill:
    archive = Archive(path)
    there, whole = set(), not archive.gaps
    for number in range(archive.count):
        frame = archive.frame_bytes(number)
        whole &= bool(frame)
        if b'"result"' in frame and (found := ID.search(frame)):
            there.add(int(found[1]))
    archive.close()
    lost = [when for number, when in answered.items() if number not in there]
    lost_s = killed - min(lost) if lost else 0.0
    return Kill(len(answered), len(lost), lost_s, archive.unreadable, whole)


async def main(count: int) -> int:
    """Print the cost of each kill; return 1 if one of them cost too much."""
    seeded = random.Random(count)
    kills = []
    for turn in range(count):
        callers, size = seeded.choice(CALLERS), seeded.choice(SIZES)
        kill = await kill_once(seeded.uniform(0.5, 1.5), callers, size)
        kills.append(kill)
        sys.stdout.write(f"{turn + 1}: {callers} callers, {size} characters: {kill}\n")
        sys.stdout.flush()
    lost = sorted(kill.lost_s for kill in kills)
    median, most = lost[len(lost) // 2], lost[-1]
    late = sum(each > MAX_LOST_S for each in lost)
    p95 = lost[int(0.95 * (len(lost) - 1))]
    sys.stdout.write(
        f"{count} kills: median {median * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms, most {most * 1e3:.0f} ms; "
        f"{late} over {MAX_LOST_S * 1e3:.0f} ms; {sum(kill.answered for kill in kills):,} answers, "
        f"{sum(kill.lost for kill in kills):,} lost\n"
    )
    return 1 if late or any(kill.damaged > 1 or not kill.is_in_order for kill in kills) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)))
