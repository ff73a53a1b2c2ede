"""A minimal stdio server: an asyncio loop over lines and orjson, without any checks.

Its argument is the number of additional tools.
"""

from __future__ import annotations

import asyncio
import sys

import orjson

from tests.bench.peers.answers import Answer, answering, batches, ticks


class LineFrame(asyncio.Protocol):
    """Answers all lines of a piece at once."""

    def __init__(self, answer: Answer, out: asyncio.WriteTransport) -> None:
        self._answer = answer
        self._out = out
        self._pieces: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Answer the lines of received bytes."""
        self._pieces.append(data)
        if b"\n" not in data:
            return
        *lines, rest = b"".join(self._pieces).split(b"\n")
        self._pieces = [rest] if rest else []
        answers = []
        for line in lines:
            message = orjson.loads(line)
            if "id" not in message:
                continue
            if count := ticks(message):
                self._out.writelines(batches(count, b"", b"\n"))
            answers += [self._answer(message), b"\n"]
        if answers:
            self._out.write(b"".join(answers))


async def serve(more: int) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    frame = LineFrame(answering(more), out)
    await loop.connect_read_pipe(lambda: frame, sys.stdin)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
