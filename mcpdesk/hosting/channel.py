"""A full-duplex channel of frames on one dialogue, and a byte pipe on top of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.handshake import Phase
from mcpdesk.protocol.jsonrpc import Id, invalid, readable_id
from mcpdesk.protocol.series import Alike, Series, merged
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.lanes import Lanes

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import Converse, HostedEndpoint
    from mcpdesk.transports.base import Answer, Reply
    from mcpdesk.transports.replay import Spoken

LARGE = 64 << 10
"""Bytes from which on a frame counts against what may be in flight."""
BURST = 60 << 10
"""Bytes a handler may send before it is made to wait a turn, so that they leave in one write."""
TURN_S = 0.002
"""How long it may go on without a turn: who computes between its messages is heard all the same."""


class Channel:
    """Frames in, frames out. It is its own outlet: every message of a pipe goes the same way.

    What leaves in answer to frames that came together, or in one turn of the loop, is written and recorded
    together. `write` takes what leaves together and must not block. Frames are recorded as soon as the answer
    is on its way: a peer does not wait for that. Those of a peer in memory are recorded first, as it looks at
    the record.
    """

    may_send = True
    must_drain = False

    def __init__(
        self,
        endpoint: HostedEndpoint,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        principal: Principal = OPEN,
        converse: Converse | None = None,
    ) -> None:
        self.dialogue = endpoint.open(transport, peer, self.send, principal, converse)
        self.connection = self.dialogue.connection
        self._record, self._record_all = endpoint.recorder.frame, endpoint.recorder.together
        self._endpoint = endpoint
        self._direct = self.dialogue.conversation.directly
        self._write = write
        self._is_near = transport == "memory"
        self._lanes = Lanes(self._answered)
        self._came: Sequence[bytes] = ()
        """Frames that are not recorded yet."""
        self._came_at = 0.0
        self._doubtful: list[int] = []
        """Places of those that are no JSON for all we know."""
        self._first = 0
        """The number in the record of the first frame that came last."""
        self._left: Sequence[bytes] = ()
        """What was written and is not recorded yet."""
        self._left_at = 0.0
        self._out: list[bytes] = []
        """What leaves soon."""
        self._series: list[tuple[int, Series]] = []
        """Series that leave with it, and where they belong."""
        self._open_series = 0
        """How many of these, from the end, are open: every call that reports has one."""
        self._size = 0
        """Bytes of what handlers sent of it."""
        self._until = 0.0
        """How long handlers may go on sending."""
        self._is_armed = False
        """Whether somebody will flush."""
        self._is_alone = False
        """Whether an answer has nothing to wait for: nothing else came with its request."""
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
        for each in self._taken((frame,), principal):
            self._lanes.run(each)
        self._answer()
        return self._first

    def take_all(self, frames: Sequence[bytes], principal: Principal | None = None) -> None:
        """Frames arrived together. What need not wait is answered on return."""
        work = self._taken(frames, principal)
        self._is_alone = len(frames) == 1
        self._lanes.run_all(work)
        self._is_alone = False
        self._answer()

    def send(self, message: bytes) -> None:
        """Record and write one message soon."""
        if self._is_open:
            if self._open_series:
                self._end_series()
            self._out.append(message)
            self._size += len(message)
            if self._size >= BURST or monotonic() > self._until:
                self.must_drain = True
            if not self._is_armed:
                self._arm()

    def series(self, before: bytes, after: bytes) -> Series | None:
        """A place for messages that differ in a number between these bytes; None: send them one by one."""
        if self.must_drain or not self._is_open:
            return None
        series = Series(before, after, BURST - self._size, self._until)
        self._series.append((len(self._out), series))
        self._open_series += 1
        if not self._is_armed:
            self._arm()
        return series

    def flush(self) -> None:
        """Write and record what was sent."""
        self._is_armed = False
        frames: Sequence[bytes] = self._out
        if self._series:
            frames = merged(frames, self._series)
            self._series, self._open_series = [], 0
        if frames:
            self._out, self._size = [], 0
            self._left, self._left_at = frames, time()
            if self._is_near:
                self._note()
            self._write(frames)
            self._note()

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
        if self._open_series:
            self._end_series()

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
    ) -> list[Coroutine[Any, Any, Reply]]:
        """What is to run for frames that came; `_answer` has to follow."""
        self._is_armed = True
        if self._came or self._left:  # whoever was written to just now sends something at once
            self._note()
        self._came, self._came_at = frames, time()
        work: list[Coroutine[Any, Any, Reply]] = []
        direct, conversation = self._direct, self.dialogue.conversation
        who = principal or conversation.principal
        is_usual = direct.begins(who)
        for place, frame in enumerate(frames):
            answer: Answer | None = None
            if is_usual and len(frame) < LARGE:
                answer = direct.answer_frame(conversation, frame, self, who)
            if answer is None:
                answer = self._accept(frame, principal, place)
            if isinstance(answer, tuple):
                self._answered(answer)
            else:
                work.append(answer)
        return work

    def _answer(self) -> None:
        """Write what is there in answer to frames that came, and look after the rest."""
        self.flush()
        if self._came:
            self._note()
        self._direct.settle(self.dialogue.conversation)

    def _note(self) -> None:
        """Record what came and what left, in this order."""
        if came := self._came:
            self._came, at = (), self._came_at
            if len(came) == 1 and not self._doubtful:
                self._first = self._record(self.connection, Direction.IN, came[0], True, None, at)
            else:
                doubtful, self._doubtful = self._doubtful, []
                self._first = self._record_all(self.connection, Direction.IN, came, doubtful, at)
        if left := self._left:
            self._left, at = (), self._left_at
            if len(left) == 1:
                self._record(self.connection, Direction.OUT, left[0], True, None, at)
            else:
                self._record_all(self.connection, Direction.OUT, left, (), at)

    def _accept(self, frame: bytes, principal: Principal | None, place: int) -> Answer:
        """What answers any frame; its place is noted when it is no JSON for all we know."""
        size = len(frame)
        if size >= LARGE and (refused := self._refuse_large(size)):
            self._doubtful.append(place)
            return 0, codec.error_response(_id_of(frame), refused)
        try:
            message = codec.decode(frame)
        except ProtocolError:
            self._doubtful.append(place)
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

    def _answered(self, reply: Reply) -> None:
        if reply[1] is not None and self._is_open:
            self._out.append(reply[1])
            if self._is_alone:
                self.flush()
            elif not self._is_armed:
                self._arm()

    def _end_series(self) -> None:
        """What comes next stands behind them."""
        for _, series in self._series[-self._open_series :]:
            series.is_open = False
        self._open_series = 0

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
        super().__init__(endpoint, transport, peer, self._write_lines)
        self._send_bytes = send_bytes
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

    def leave(self) -> Spoken | None:
        """End it without a word, for another server to go on; returns what that has to know.

        None, with nothing done, while anything of the peer's is under way or kept here.
        """
        from mcpdesk.transports.replay import LISTEN, Spoken, listening

        self.flush()
        conversation, rest = self.dialogue.conversation, self._framer.held()
        if rest is None or self._endpoint.keeps_something or conversation.asked:
            return None
        calls = conversation.running
        if any(call.method != LISTEN for call in calls):
            return None
        session, spoken = conversation.session, Spoken()
        spoken.rest = rest
        if session.opening is not None:
            spoken.opening, spoken.revision = session.opening, session.terms.revision.name
            spoken.is_ready, spoken.level = session.phase is Phase.READY, session.chosen_level
            spoken.subscriptions = dict.fromkeys(session.subscriptions)
        for call in calls:
            spoken.in_flight[call.id] = listening(call.id, call.params)
        self.close("a desk has taken over")
        return spoken

    def _write_lines(self, frames: Sequence[bytes]) -> None:
        if type(frames) is Alike:
            self._send_bytes(frames.joined(b"\n", 0, len(frames)) + b"\n")
        elif len(frames) > 1:
            self._send_bytes(b"\n".join([*frames, b""]))
        elif len(frames[0]) < LARGE:
            self._send_bytes(frames[0] + b"\n")
        else:
            # A copy of it for the sake of one byte costs more than one write more.
            self._send_bytes(frames[0])
            self._send_bytes(b"\n")


def _id_of(frame: bytes) -> Id | None:
    """The id to echo to a frame that is not taken."""
    try:
        return readable_id(codec.decode(frame))
    except ProtocolError:
        return None
