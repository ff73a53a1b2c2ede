"""A full-duplex channel of frames on one dialogue, and a byte pipe on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.jsonrpc import Id, invalid, readable_id
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.base import Reply
from mcpdesk.transports.lanes import Lanes

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import Converse, HostedEndpoint

LARGE = 64 << 10
"""Bytes from which on a frame counts against what may be in flight."""
BURST = 32
"""Messages a handler may send before it is made to wait a turn, so that they leave in one write."""


class Channel:
    """Frames in, frames out. It is its own outlet: every message of a pipe goes the same way.

    `write` takes one frame and must not block.
    """

    may_send = True

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        write: Callable[[bytes], None],
        principal: Principal = OPEN,
        converse: Converse | None = None,
    ) -> None:
        self.dialogue = endpoint.open(transport, peer, self.send, principal, converse)
        self.connection = self.dialogue.connection
        self._record = endpoint.recorder.frame
        self._endpoint = endpoint
        self._accept = self.dialogue.accept_message
        self._write = write
        self._lanes = Lanes(self._answered)
        self._sent = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_open = True

    @property
    def may_batch(self) -> bool:
        """Whether the peer's revision has arrays of messages."""
        return self.dialogue.conversation.may_batch

    def take(self, frame: bytes, principal: Principal | None = None) -> int:
        """One frame arrived; returns its number in the record. `principal`: who sent it, if told apart."""
        if len(frame) >= LARGE and (refused := self._refuse_large(len(frame))):
            number = self._record(self.connection, Direction.IN, frame)
            self.send(codec.error_response(_id_of(frame), refused))
            return number
        try:
            message = codec.decode(frame)
        except ProtocolError:
            number = self._record(self.connection, Direction.IN, frame)
            answer = self.dialogue.accept(frame, self)
        else:
            number = self._record(self.connection, Direction.IN, frame, True)
            answer = self._accept(message, self, None, principal)
        if isinstance(answer, tuple):
            if answer[1] is not None:
                self.send(answer[1])
            return number
        self._lanes.run(answer if len(frame) < LARGE else self._counted(answer, len(frame)))
        return number

    def send(self, message: bytes) -> None:
        """Record and write one message."""
        if not self._is_open:
            return
        self._record(self.connection, Direction.OUT, message, True)
        self._sent += 1
        self._write(message)

    async def drain(self) -> None:
        """Let other work, and the peer, have a turn after a burst; wait for a peer that does not keep up."""
        if self._sent >= BURST:
            self._sent = 0
            await asyncio.sleep(0)
        if not self._may_write.is_set():
            await self._may_write.wait()

    def pause(self) -> None:
        """The peer does not keep up."""
        self._may_write.clear()

    def resume(self) -> None:
        """The peer keeps up again."""
        self._may_write.set()

    def keep_alive(self) -> None:
        """A pipe needs no signs of life."""

    async def let_go(self, retry_ms: int) -> bool:
        """A pipe is not taken up again."""
        return False

    def _refuse_large(self, size: int) -> ProtocolError | None:
        """What to say to a frame that counts: all clients of a server may have so many bytes in flight."""
        most = self._endpoint.server.limits.large_bytes
        if self._endpoint.large_bytes + size <= most:
            return None
        return invalid(f"requests of more than {most} bytes are in flight (max_bodies_bytes)")

    def _counted(self, work: Coroutine[Any, Any, Reply], size: int) -> Coroutine[Any, Any, Reply]:
        self._endpoint.large_bytes += size
        return self._uncount(work, size)

    async def _uncount(self, work: Coroutine[Any, Any, Reply], size: int) -> Reply:
        try:
            return await work
        finally:
            self._endpoint.large_bytes -= size

    async def drained(self) -> None:
        """Wait until everything received has been answered."""
        await self._lanes.finished()

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone: its calls end."""
        self._is_open = False
        self._may_write.set()
        self.dialogue.close(reason)
        self._lanes.close()

    def _answered(self, reply: tuple[int, bytes | None]) -> None:
        if reply[1] is not None:
            self.send(reply[1])


class Pipe(Channel):
    """Newline-delimited frames over any byte stream. `send_bytes` gathers and must not block."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        send_bytes: Callable[[bytes], None],
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        super().__init__(endpoint, transport, peer, self._write_line)
        self._send_bytes = send_bytes
        self._framer = LineFramer(limit)

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in any split; what need not wait has been answered on return."""
        self._lanes.gather()
        try:
            for frame in self._framer.feed(data):
                if frame:
                    self.take(frame)
                else:
                    self._refuse_line()
        finally:
            self._lanes.go()

    def eof(self) -> None:
        """The peer sends no more; a last line without a newline still counts."""
        rest = self._framer.close()
        if rest:
            self.take(rest)
        self.dialogue.end_listening()

    def _refuse_line(self) -> None:
        self.send(codec.error_response(None, invalid(f"a line exceeds {self._framer.limit} bytes")))

    def _write_line(self, frame: bytes) -> None:
        self._send_bytes(frame + b"\n")


def _id_of(frame: bytes) -> Id | None:
    """The id to echo to a frame that is not taken."""
    try:
        return readable_id(codec.decode(frame))
    except ProtocolError:
        return None
