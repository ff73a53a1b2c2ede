"""A full-duplex channel of frames on one dialogue, and a byte pipe on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.lanes import Lanes
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.jsonrpc import invalid
from mcpdesk.protocol import codec
from mcpdesk.recorder.record import Direction

GATHERED = 32
"""Messages a burst may queue before a handler that sends them is made to wait a turn."""


class Channel:
    """Frames in, frames out. It is its own outlet: every message of a pipe goes the same way.

    `write` takes all frames of one loop turn at once.
    """

    def __init__(
        self, endpoint: HostedEndpoint, transport: str, peer: str, write: Callable[[list[bytes]], None]
    ) -> None:
        self.dialogue = endpoint.open(transport, peer, self.send)
        self.connection = self.dialogue.connection
        self._record = endpoint.recorder.frame
        self._accept = self.dialogue.accept
        self._write = write
        self._lanes = Lanes()
        self._outgoing: list[bytes] = []
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_open = True

    def take(self, frame: bytes) -> None:
        """One frame arrived."""
        self._record(self.connection, Direction.IN, frame)
        answer = self._accept(frame, self)
        if isinstance(answer, tuple):
            if answer[1] is not None:
                self.send(answer[1])
            return
        self._lanes.run(self._deliver(answer))

    def send(self, message: bytes) -> None:
        """Queue a message; everything of one loop turn leaves in one write."""
        if not self._is_open:
            return
        self._record(self.connection, Direction.OUT, message)
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(message)

    async def drain(self) -> None:
        """Let the peer keep up: one turn after a burst, longer while the pipe is full."""
        if len(self._outgoing) >= GATHERED:
            await asyncio.sleep(0)
        if not self._may_write.is_set():
            await self._may_write.wait()

    def keep_alive(self) -> None:
        """A pipe needs no signs of life."""

    def pause(self) -> None:
        """The pipe is full."""
        self._may_write.clear()

    def resume(self) -> None:
        """The pipe takes more."""
        self._may_write.set()

    async def drained(self) -> None:
        """Wait until everything received has been answered and written."""
        await self._lanes.finished()
        self._flush()

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone: its calls end."""
        self._flush()
        self._is_open = False
        self._may_write.set()
        self.dialogue.close(reason)

    async def _deliver(self, work: Coroutine[Any, Any, tuple[int, bytes | None]]) -> None:
        _, body = await work
        if body is not None:
            self.send(body)

    def _flush(self) -> None:
        frames, self._outgoing = self._outgoing, []
        if frames:
            self._write(frames)


class Pipe(Channel):
    """Newline-delimited frames over any byte stream. `send_bytes` must not block."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        send_bytes: Callable[[bytes], None],
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        super().__init__(endpoint, transport, peer, self._write_lines)
        self._send_bytes = send_bytes
        self._framer = LineFramer(limit)

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in any split."""
        for frame in self._framer.feed(data):
            if frame:
                self.take(frame)
            else:
                self._refuse_line()

    def eof(self) -> None:
        """The peer sends no more; a last line without a newline still counts."""
        rest = self._framer.close()
        if rest:
            self.take(rest)

    def _refuse_line(self) -> None:
        self.send(codec.error_response(None, invalid(f"a line exceeds {self._framer.limit} bytes")))

    def _write_lines(self, frames: list[bytes]) -> None:
        frames.append(b"")
        self._send_bytes(b"\n".join(frames))
