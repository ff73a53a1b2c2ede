"""One peer of a hosted server: its dialogue, a channel of frames on it, a pipe of bytes on top of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.answer_size import LARGE
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.handshake import Phase, SessionState
from mcpdesk.protocol.jsonrpc import Id, invalid, readable_id
from mcpdesk.protocol.outlet import Reply
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.recorder.record import ConnectionInfo, Direction, HttpNote, Recorder
from mcpdesk.server.calls.conversation import Conversation
from mcpdesk.server.calls.running_call import LEFT
from mcpdesk.server.offer.server import Server
from mcpdesk.transports.unread_answers import UNREAD

if TYPE_CHECKING:
    from mcpdesk.hosting.held_token import ClientToken
    from mcpdesk.hosting.holding.holds import Accept
    from mcpdesk.transports.replay import ClientState

BURST = 60 << 10
"""Bytes a handler may send before it is made to wait a turn, so that they leave in one write."""
TURN_S = 0.002
"""How long it may go on without a turn: who computes between its messages is heard all the same."""
_numbers = count(1)
"""Connection numbers, unique in this process."""


def next_connection() -> int:
    """A number for a connection that no other one of this process has."""
    return next(_numbers)


class MessageHolds(Protocol):
    """What dialogues need of the place where messages wait for a person."""

    @property
    def is_on(self) -> bool:
        """Whether something is to be held."""

    def guard(self, connection: int, plain: Accept) -> Accept:
        """What takes the messages of a dialogue instead of `plain`."""

    def forget(self, connection: int) -> None:
        """A dialogue ended."""


class DialogueEndpoint(Protocol):
    """What dialogues and channels need of the server they belong to."""

    server: Server
    recorder: Recorder
    large_bytes: int
    """Of large frames in flight on its channels."""

    @property
    def name(self) -> str:
        """The server's name."""

    @property
    def keeps_something(self) -> bool:
        """Whether clients may still ask for what was begun here."""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_heard: Callable[[], bool] | None = None,
        speaks_gateway: bool = False,
    ) -> HostedDialogue:
        """Begin a dialogue."""

    def conversation(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None,
        on_terms: Callable[[Terms], None],
        speaks_gateway: bool,
        is_heard: Callable[[], bool] | None,
    ) -> Conversation:
        """What answers one peer."""

    def forget(self, dialogue: HostedDialogue) -> None:
        """A dialogue ended."""


class HostedDialogue:
    """A conversation that the recorder knows by number."""

    def __init__(
        self,
        endpoint: DialogueEndpoint,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None,
        principal: Principal = OPEN,
        speaks_gateway: bool = False,
        is_heard: Callable[[], bool] | None = None,
    ) -> None:
        self.connection = next_connection()
        self.opened = time.time()
        self.closed: float | None = None
        """Unix time at which it ended."""
        self.conversation = endpoint.conversation(
            transport, peer, push, self._known, speaks_gateway, is_heard
        )
        self.conversation.principal, self.conversation.connection = principal, self.connection
        self.accept = self.conversation.accept
        self.accept_message = self.conversation.accept_message
        self._endpoint = endpoint
        self._is_connected = True
        self._revision = ""
        self._announce()

    @property
    def revision(self) -> str:
        """The revision of its session."""
        return self.conversation.session.terms.revision.name

    @property
    def shown_revision(self) -> str:
        """The revision last spoken."""
        return self._revision

    @property
    def is_open(self) -> bool:
        """Whether a handshake took place."""
        return self.conversation.session.is_open

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""
        return not self.conversation.running

    @property
    def outlives_connection(self) -> bool:
        """Whether a call of the handshake era is in flight: there a lost connection cancels nothing.

        One that waits for a person does not count: nobody is to decide what no one will hear of.
        """
        running = self.conversation.running
        return any(not call.terms.revision.is_stateless and not call.asks_person for call in running)

    @property
    def awaits_answer(self) -> bool:
        """Whether a call in flight waits for the answer of a person or of the client."""
        return any(call.pauses for call in self.conversation.running)

    def end_awaiting(self) -> None:
        """End the calls that wait for an answer, since the client has left."""
        for call in self.conversation.running:
            if call.pauses:
                call.end(LEFT)

    def hold(self, holds: MessageHolds | None) -> None:
        """Let requests and answers wait for a person from now on; None: no longer."""
        plain = self.conversation.accept_message
        self.accept_message = plain if holds is None else holds.guard(self.connection, plain)
        self.conversation.accept_member = None if holds is None else self.accept_message

    def identify(self, principal: Principal) -> None:
        """The peer proved who it is."""
        self.conversation.principal = principal
        self._announce()

    def adopt(self, revision: str, client: str) -> bool:
        """Serve a handshake revision without a handshake."""
        known = BY_NAME.get(revision)
        if known is None or known.is_stateless:
            return False
        self.conversation.session.adopt(known, client)
        return True

    @property
    def state(self) -> SessionState:
        """How its session stands, for a process that goes on with it."""
        return self.conversation.state

    def restore(self, state: SessionState) -> None:
        """Go on with a session of another process.

        Raises: RemoteProtocolError when such a session is not served any more.
        """
        self.conversation.restore(state)

    def catch_up(self, state: SessionState) -> None:
        """Take over what its client said to another replica."""
        self.conversation.catch_up(state)

    def number_requests(self, mark: str, first: int) -> None:
        """Name requests to the client `<mark>-<number>`, from a number on."""
        self.conversation.requests.number(mark, first)

    def hear(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Tell the client of a change that was noted elsewhere, if it wants to hear of such."""
        self.conversation.hear(kind, facts)

    def leave(self) -> None:
        """Forget the peer, which goes on elsewhere: what it owns stays as it is."""
        self.conversation.requests.disown()
        self.close("the session goes on elsewhere")

    def end_listening(self) -> None:
        """The peer wants nothing more: what would never end by itself ends."""
        for call in self.conversation.running:
            if call.method == "subscriptions/listen":
                call.end("nobody listens any more")

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone. Harmless when called twice."""
        if not self._is_connected:
            return
        self._is_connected = False
        self.closed = time.time()
        self.conversation.close(reason)
        self._endpoint.forget(self)
        self._announce(closed=self.closed)

    def _known(self, terms: Terms) -> None:
        self._announce(terms.revision.name)

    def _announce(self, revision: str = "", closed: float | None = None) -> None:
        self._revision = revision or self._revision
        conversation = self.conversation
        self._endpoint.recorder.connect(
            ConnectionInfo(
                number=self.connection,
                server=self._endpoint.name,
                transport=conversation.transport,
                peer=conversation.peer,
                revision=self._revision,
                opened=self.opened,
                closed=closed,
                principal=conversation.principal.name,
            )
        )


class FrameChannel:
    """Frames in, frames out. It is its own outlet: every message of a pipe goes the same way.

    What leaves in one turn of the loop is written and recorded together. `write` takes what leaves together
    and must not block.
    """

    may_send = True
    must_drain = False

    def __init__(
        self,
        endpoint: DialogueEndpoint,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        principal: Principal = OPEN,
        speaks_gateway: bool = False,
    ) -> None:
        self.dialogue = endpoint.open(transport, peer, self.send, principal, speaks_gateway=speaks_gateway)
        self.connection = self.dialogue.connection
        self._record = endpoint.recorder.together
        self._endpoint = endpoint
        self._write = write
        self._answering: dict[int, asyncio.Task[None]] = {}
        """One for each request that is not answered yet, by a number of ours."""
        self._begun = count()
        self._out: list[bytes] = []
        """What leaves soon."""
        self._phases: dict[int, Phases] = {}
        """Where the time of the answers among it went, by their places."""
        self._size = 0
        """Bytes of what handlers sent of it."""
        self._until = 0.0
        """How long handlers may go on sending."""
        self._is_armed = False
        """Whether somebody will flush."""
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_open = True
        self._promised = 0
        """Bytes of large answers that are made now: once written, they are counted by who writes."""

    @property
    def may_batch(self) -> bool:
        """Whether the peer's revision has arrays of messages."""
        return self.dialogue.conversation.may_batch

    def take(self, frame: bytes, principal: Principal | None = None, note: HttpNote | None = None) -> None:
        """Handle a frame that arrived. `principal`: who sent it, if told apart."""
        self.take_all((frame,), principal, note)

    def take_all(
        self, frames: Sequence[bytes], principal: Principal | None = None, note: HttpNote | None = None
    ) -> None:
        """Handle frames that arrived together; `note` is what HTTP said around a single one.

        What runs no handler has been answered on return. Handlers begin in the next turn of the loop.
        """
        messages, doubtful = list[Any](), list[int]()
        for place, frame in enumerate(frames):
            try:
                if len(frame) >= LARGE:
                    self._check_room(len(frame))
                messages.append(codec.decode(frame))
            except ProtocolError as error:
                messages.append(error)
                doubtful.append(place)
        self._record(self.connection, Direction.IN, frames, doubtful, note)
        self._is_armed = True
        accept = self.dialogue.accept_message
        for frame, message in zip(frames, messages, strict=True):
            if isinstance(message, ProtocolError):
                self._answered(self.dialogue.conversation.refused(_id_of(frame), message, False))
                continue
            answer = accept(message, self, None, principal)
            if isinstance(answer, tuple):
                self._answered(answer)
            else:
                size = len(frame) if len(frame) >= LARGE else 0
                self._endpoint.large_bytes += size
                number = next(self._begun)
                self._answering[number] = asyncio.create_task(self._answer(number, answer, size))
        self.flush()

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
            phases, self._phases = self._phases, {}
            self._record(self.connection, Direction.OUT, frames, (), None, phases)
            if self._promised:
                self._promise(-self._promised)
            self._write(frames)

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

    async def reserve(self, size: int) -> None:
        """Wait until an answer of so many bytes may be held. Raises: AnswerRefused."""
        if self._is_open:
            await UNREAD.reserve(size, self._promise)

    def _promise(self, size: int) -> None:
        if not self._is_open:
            return  # nothing more is written, and what was promised is taken back
        size = max(size, -self._promised)  # a flush took it back already
        self._promised += size
        UNREAD.promise(size)

    def keep_alive(self) -> None:
        """A pipe needs no signs of life."""

    async def close_stream(self, retry_ms: int) -> bool:
        """A pipe is not taken up again."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """Who reads and writes the pipe ends it."""
        return False

    def _check_room(self, size: int) -> None:
        """Raises: RemoteProtocolError when too many large frames are in flight for this one."""
        most = self._endpoint.server.limits.large_bytes
        if self._endpoint.large_bytes + size > most:
            raise invalid(f"requests of more than {most} bytes are in flight (max_bodies_bytes)")

    async def _answer(self, number: int, work: Coroutine[Any, Any, Reply], size: int) -> None:
        """Answer one request. `size` is what a large one counts for; 0: it is none."""
        try:
            self._answered(await work)
        finally:
            del self._answering[number]
            self._endpoint.large_bytes -= size

    async def drained(self) -> None:
        """Wait until everything received has been answered."""
        while waiting := [task for task in self._answering.values() if not task.done()]:
            await asyncio.wait(waiting)
        self.flush()

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone: its calls end."""
        self.flush()
        self._promise(-self._promised)
        self._is_open = False
        UNREAD.wake()
        self._may_write.set()
        self.dialogue.close(reason)

    def _answered(self, reply: Reply) -> None:
        _, body, phases = reply
        if body is not None and self._is_open:
            if phases is not None:
                self._phases[len(self._out)] = phases
            self._out.append(body)
            if not self._is_armed:
                if len(self._answering) > 1:
                    self._arm()  # others may be done in this turn, too
                else:
                    self.flush()

    def _arm(self) -> None:
        self._is_armed = True
        asyncio.get_running_loop().call_soon(self.flush)


class Pipe(FrameChannel):
    """Newline-delimited frames over any byte stream. `send_bytes` takes them and must not block."""

    def __init__(
        self,
        endpoint: DialogueEndpoint,
        transport: str,
        peer: str,
        send_bytes: Callable[[bytes], None],
        limit: int = DEFAULT_LIMIT,
        session: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`session` is the mark of a session that other processes may have served before.

        `environment` is that of the peer's process, without secrets; None if it is ours.
        """
        super().__init__(endpoint, transport, peer, self._write_lines)
        self.dialogue.conversation.environment = environment
        self.dialogue.conversation.has_own_lists = True
        self.token: ClientToken | None = None
        """The client's token; None without one."""
        self.is_identified = True
        if session:
            self.dialogue.conversation.continue_session(session)
        self._send_bytes = send_bytes
        self._framer = LineFramer(limit)
        self._dropped = 0

    def expect(self, token: ClientToken) -> None:
        """Feed nothing before `identify` has checked a token of the client."""
        self.token, self.is_identified = token, False

    async def identify(self) -> None:
        """Check the client's token."""
        if self.token is not None:
            await self.token.check()
        self.is_identified = True

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in any split; what need not wait has been answered on return."""
        if self.token is not None:
            self.token.apply()
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

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone: its calls end."""
        if self.token is not None:
            self.token.close()
        super().close(reason)

    def leave(self) -> ClientState | None:
        """End it without a word, for another server to go on; returns what that has to know.

        None, with nothing done, while anything of the peer's is under way or kept here.
        """
        from mcpdesk.transports.replay import LISTEN, ClientState, pending_listener

        self.flush()
        conversation, rest = self.dialogue.conversation, self._framer.held()
        if rest is None or self._endpoint.keeps_something or conversation.asked:
            return None
        calls = conversation.running
        if any(call.method != LISTEN for call in calls):
            return None
        session, client_state = conversation.session, ClientState()
        client_state.rest = rest
        if session.opening is not None:
            client_state.opening, client_state.revision = session.opening, session.terms.revision.name
            client_state.is_ready, client_state.level = session.phase is Phase.READY, session.chosen_level
            client_state.subscriptions = dict.fromkeys(session.subscriptions)
        for call in calls:
            client_state.in_flight[call.id] = pending_listener(call.id, call.params)
        self.close("a desk has taken over")
        return client_state

    def _write_lines(self, frames: Sequence[bytes]) -> None:
        if len(frames) > 1:
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
