"""A full-duplex channel of frames on one dialogue, and a byte pipe on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.jsonrpc import Id, invalid, readable_id
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.lanes import Lanes

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import Converse, HostedEndpoint
    from mcpdesk.transports.base import Answer, Reply

LARGE = 64 << 10
"""Bytes from which on a frame counts against what may be in flight."""
BURST = 60 << 10
"""Bytes a handler may send before it is made to wait a turn, so that they leave in one write."""
TURN_S = 0.002
"""How long it may go on without a turn: who computes between its messages is heard all the same."""


class Channel:
    """Frames in, frames out. It is its own outlet: every message of a pipe goes the same way.

    What leaves in answer to frames that came together, or in one turn of the loop, is recorded and written
    together. `write` takes one frame and must not block.
    """

    may_send = True
    must_drain = False

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
        self._record, self._record_all = endpoint.recorder.frame, endpoint.recorder.together
        self._endpoint = endpoint
        self._direct = self.dialogue.conversation.directly
        self._write = write
        self._lanes = Lanes(self._answered)
        self._out: list[bytes] = []
        """What leaves soon."""
        self._size = 0
        """Bytes of what handlers sent of it."""
        self._until = 0.0
        """How long handlers may go on sending."""
        self._is_armed = False
        """Whether somebody will flush."""
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_open = True

    @property
    def may_batch(self) -> bool:
        """Whether the peer's revision has arrays of messages."""
        return self.dialogue.conversation.may_batch

    def take(self, frame: bytes, principal: Principal | None = None) -> int:
        """One frame arrived; returns its number in the record. `principal`: who sent it, if told apart.

        What runs for it begins in the next turn of the loop.
        """
        number, work = self._taken((frame,), principal)
        for each in work:
            self._lanes.run(each)
        self.flush()
        self._direct.settle(self.dialogue.conversation)
        return number

    def take_all(self, frames: Sequence[bytes], principal: Principal | None = None) -> int:
        """Frames arrived together; returns the first one's number. What need not wait is answered already."""
        number, work = self._taken(frames, principal)
        self._lanes.run_all(work)
        self.flush()
        self._direct.settle(self.dialogue.conversation)
        return number

    def send(self, message: bytes) -> None:
        """Record and write one message soon."""
        if self._is_open:
            self._out.append(message)
            self._size += len(message)
            if self._size >= BURST or monotonic() > self._until:
                self.must_drain = True
            if not self._is_armed:
                self._arm()

    def flush(self) -> None:
        """Record and write what was sent."""
        self._is_armed = False
        if frames := self._out:
            self._out, self._size = [], 0
            if len(frames) == 1:
                self._record(self.connection, Direction.OUT, frames[0], True)
            else:
                self._record_all(self.connection, Direction.OUT, frames)
            self._write_all(frames)

    async def drain(self) -> None:
        """Let other work, and the peer, have a turn after a burst; wait for a peer that does not keep up."""
        self.flush()
        await asyncio.sleep(0)
        if not self._may_write.is_set():
            await self._may_write.wait()
        self._until = monotonic() + TURN_S
        self.must_drain = self._size >= BURST

    def pause(self) -> None:
        """The peer does not keep up."""
        self._may_write.clear()
        self.must_drain = True

    def resume(self) -> None:
        """The peer keeps up again."""
        self._may_write.set()

    def keep_alive(self) -> None:
        """A pipe needs no signs of life."""

    async def let_go(self, retry_ms: int) -> bool:
        """A pipe is not taken up again."""
        return False

    def _taken(
        self, frames: Sequence[bytes], principal: Principal | None
    ) -> tuple[int, list[Coroutine[Any, Any, Reply]]]:
        """Record frames; returns the first one's number, and what is to run for them."""
        self._is_armed = True
        doubtful: list[int] = []
        work: list[Coroutine[Any, Any, Reply]] = []
        direct, conversation = self._direct, self.dialogue.conversation
        who = principal or conversation.principal
        is_usual = direct.begins(who)
        for place, frame in enumerate(frames):
            answer: Answer | None = None
            if is_usual and len(frame) < LARGE:
                answer = direct.answer_frame(conversation, frame, self, who)
            if answer is None:
                answer = self._accept(frame, principal, place, doubtful)
            if isinstance(answer, tuple):
                self._answered(answer)
            else:
                work.append(answer)
        if len(frames) == 1:
            return self._record(self.connection, Direction.IN, frames[0], not doubtful), work
        return self._record_all(self.connection, Direction.IN, frames, doubtful), work

    def _accept(self, frame: bytes, principal: Principal | None, place: int, doubtful: list[int]) -> Answer:
        """What answers any frame; its place is noted when it is no JSON for all we know."""
        size = len(frame)
        if size >= LARGE and (refused := self._refuse_large(size)):
            doubtful.append(place)
            return 0, codec.error_response(_id_of(frame), refused)
        try:
            message = codec.decode(frame)
        except ProtocolError:
            doubtful.append(place)
            return self.dialogue.accept(frame, self)
        answer = self.dialogue.accept_message(message, self, None, principal)
        return answer if size < LARGE or isinstance(answer, tuple) else self._counted(answer, size)

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
        self.flush()
        self._is_open = False
        self._may_write.set()
        self.dialogue.close(reason)
        self._lanes.close()

    def _write_all(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._write(frame)

    def _answered(self, reply: Reply) -> None:
        if reply[1] is not None and self._is_open:
            self._out.append(reply[1])
            if not self._is_armed:
                self._arm()

    def _arm(self) -> None:
        self._is_armed = True
        asyncio.get_running_loop().call_soon(self.flush)


class Pipe(Channel):
    """Newline-delimited frames over any byte stream. `send_bytes` takes them and must not block."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        send_bytes: Callable[[bytes], None],
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        super().__init__(endpoint, transport, peer, send_bytes)
        self._framer = LineFramer(limit)
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in any split; what need not wait has been answered on return."""
        frames = self._framer.feed(data)
        if self._framer.dropped == self._dropped:
            if frames:
                self.take_all(frames)
            return
        self._dropped = self._framer.dropped
        for frame in frames:
            if frame:
                self.take_all((frame,))
            else:
                self._is_armed = True
                self.send(codec.error_response(None, invalid(f"a line exceeds {self._framer.limit} bytes")))
        self.flush()

    def eof(self) -> None:
        """The peer sends no more; a last line without a newline still counts."""
        rest = self._framer.close()
        if rest:
            self.take(rest)
        self.dialogue.end_listening()

    def _write_all(self, frames: list[bytes]) -> None:
        if len(frames) == 1:
            if len(frames[0]) < LARGE:
                self._write(frames[0] + b"\n")
                return
            # A copy of it for the sake of one byte costs more than one write more.
            self._write(frames[0])
            self._write(b"\n")
            return
        frames.append(b"")
        self._write(b"\n".join(frames))


def _id_of(frame: bytes) -> Id | None:
    """The id to echo to a frame that is not taken."""
    try:
        return readable_id(codec.decode(frame))
    except ProtocolError:
        return None
