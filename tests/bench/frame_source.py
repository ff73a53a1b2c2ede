"""`python -m tests.bench.frame_source RATE`: a replica that records frames at a rate once it reads a line."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from msgspec.structs import replace

from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.runtime.attach_point import AttachPoint

ASKED = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add","arguments":{"text":"'
    + b"x" * 200
    + b'"}}}'
)
ANSWERED = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' + b"y" * 200 + b'"}]}}'
STEP_S = 0.005


async def record(rate: int) -> None:
    """Record calls and their answers, `rate` frames a second, until the process is ended."""
    host = Host(replace(plan_for((), {"port": 0}, os.environ, withholds_invalid=True), watch=False))
    await asyncio.to_thread(host.load)
    await host.start()
    with AttachPoint(host, "serve"):
        recording = host.recording
        recording.connect(ConnectionInfo(990, "far", "http", "somebody", "2026-07-28", time.time()))
        await asyncio.to_thread(sys.stdin.readline)
        began, number = time.monotonic(), 0
        while True:
            for number in range(number + 1, int((time.monotonic() - began) * rate / 2) + 1):  # noqa: B020
                recording.frame(990, Direction.IN, ASKED % number, is_json=True)
                recording.frame(990, Direction.OUT, ANSWERED % number, is_json=True)
            await asyncio.sleep(STEP_S)


if __name__ == "__main__":
    asyncio.run(record(int(sys.argv[1])))
