"""Connection of one peer to a hosted server, as messages, as frames and as a byte stream.

`HostedDialogue` handles messages. `FrameChannel` adds frames, and `Pipe` adds newline-delimited bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.framing import DEFAULT_LIMIT, LineFramer
from mcpdesk.protocol.handshake import Phase, SessionState
from mcpdesk.protocol.jsonrpc import Id, invalid, readable_id
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES, Reply
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.recorder.record import ConnectionInfo, Direction, HttpNote, Recorder
from mcpdesk.server.calls.conversation import Conversation
from mcpdesk.server.calls.running_call import CLIENT_LEFT
from mcpdesk.server.offer.server import Server
from mcpdesk.transports.unread_answers import UNREAD

if TYPE_CHECKING:
    from mcpdesk.hosting.held_token import ClientToken
    from mcpdesk.recorder.interceptor import Accept, Interceptor
    from mcpdesk.transports.replay import ClientState

OpenDialogue: TypeAlias = "Callable[[Callable[[bytes], None]], HostedDialogue]"
"""Function that opens a dialogue. Its argument is called with messages that answer no request."""
MAX_BURST_BYTES = 60 << 10
"""Bytes that a handler may send before it must drain. Up to this size, messages are written together."""
MAX_TURN_S = 0.002
"""Seconds for which a handler may send without draining. Draining lets other tasks run."""
_connection_numbers = count(1)
"""Numbers for new connections, unique in this process."""


def next_connection() -> int:
    """Return a connection number that is unique in this process."""
    return next(_connection_numbers)


class LargeFrames:
    """Total size of the large requests that one server is handling."""

    def __init__(self, server: Server) -> None:
        self.bytes = 0
        self._server = server

    def check(self, size: int) -> None:
        """Check a frame against the limit. Raises: RemoteProtocolError if the total would exceed the
        limit.
        """
        max_bytes = self._server.limits.large_bytes
        if self.bytes + size > max_bytes:
            raise invalid(f"requests of more than {max_bytes} bytes are in flight (max_bodies_bytes)")


class HostedDialogue:
    """A conversation with one peer, registered with the recorder under a connection number."""

    def __init__(
        self,
        conversation: Conversation,
        recorder: Recorder,
        server: str,
        on_close: Callable[[HostedDialogue], None],
        principal: Principal = OPEN,
    ) -> None:
        """`server` is the server's name. `on_close` is called when the dialogue ends."""
        self.connection = next_connection()
        self.opened = time.time()
        self.closed: float | None = None
        """Unix time when the dialogue ended, or None while it is open."""
        self.conversation = conversation
        conversation.principal = principal
        conversation.connection = self.connection
        conversation.on_terms = self._on_terms
        self.accept = self.conversation.accept
        self.accept_message: Accept = self.conversation.accept_message
        """Function that handles one decoded message; see `Conversation.accept_message`."""
        self._recorder = recorder
        self._server = server
        self._on_close = on_close
        self._is_connected = True
        self._revision = ""
        """Protocol revision of the latest message, or "" before the first one."""
        self._announce()

    @property
    def revision(self) -> str:
        """Protocol revision of the session."""
        return self.conversation.session.terms.revision.name

    @property
    def shown_revision(self) -> str:
        """Protocol revision of the latest message."""
        return self._revision

    @property
    def is_open(self) -> bool:
        """True if the client has completed a handshake."""
        return self.conversation.session.is_open

    @property
    def is_idle(self) -> bool:
        """True if no call is in flight."""
        return not self.conversation.running

    @property
    def outlives_connection(self) -> bool:
        """True if a running call must continue after the connection is lost.

        This is the case in revisions with a handshake, where a lost connection cancels no call. Calls that
        wait for a person are an exception, because the client could not receive their result.
        """
        running = self.conversation.running
        return any(not call.terms.revision.is_stateless and not call.asks_person for call in running)

    @property
    def awaits_answer(self) -> bool:
        """True if a call in flight waits for an answer from a person or from the client."""
        return any(call.pauses for call in self.conversation.running)

    def end_awaiting(self) -> None:
        """End the calls that wait for an answer, because the client has disconnected."""
        for call in self.conversation.running:
            if call.pauses:
                call.end(CLIENT_LEFT)

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Pass messages through an interceptor, or directly to the conversation if it is None."""
        direct_handler = self.conversation.accept_message
        self.accept_message = (
            direct_handler
            if interceptor is None
            else interceptor.wrap_handler(self.connection, direct_handler)
        )
        self.conversation.accept_member = None if interceptor is None else self.accept_message

    def identify(self, principal: Principal) -> None:
        """Set the principal after the peer has authenticated."""
        if self.conversation.principal is not principal:
            self.conversation.principal = principal
            self._announce()

    def assume_revision(self, revision: str, client: str) -> bool:
        """Use a protocol revision as if the client had sent a handshake. Return False if the revision is
        unknown or stateless.
        """
        session_revision = BY_NAME.get(revision)
        if session_revision is None or session_revision.is_stateless:
            return False
        self.conversation.session.assume_revision(session_revision, client)
        return True

    @property
    def state(self) -> SessionState:
        """State of the session. Another process needs this state to continue the session."""
        return self.conversation.state

    def restore(self, state: SessionState) -> None:
        """Continue a session that another process served.

        Raises: RemoteProtocolError if this program no longer supports such a session.
        """
        self.conversation.restore(state)

    def catch_up(self, state: SessionState) -> None:
        """Apply the messages that the client sent to another process."""
        self.conversation.catch_up(state)

    def number_requests(self, mark: str, first: int) -> None:
        """Number the requests to the client. Their ids are `<mark>-<number>`, counted from `first`."""
        self.conversation.requests.continue_numbering(mark, first)

    def notify(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Notify the client of a change that another process made, if the client subscribed to it."""
        self.conversation.notify(kind, facts)

    def leave(self) -> None:
        """Close the dialogue because the client continues at another process. The work that the client
        started here is kept.
        """
        self.conversation.requests.release_session()
        self.close("the session continues on another connection")

    def end_listening(self) -> None:
        """End the subscriptions of a peer that no longer reads. Otherwise the subscriptions would never
        end.
        """
        for call in self.conversation.running:
            if call.method == "subscriptions/listen":
                call.end("the client no longer listens")

    def close(self, reason: str = "connection closed") -> None:
        """End the dialogue after the peer has disconnected. A second call does nothing."""
        if not self._is_connected:
            return
        self._is_connected = False
        self.closed = time.time()
        self.conversation.close(reason)
        self._on_close(self)
        self._announce(closed=self.closed)

    def _on_terms(self, terms: Terms) -> None:
        self._announce(terms.revision.name)

    def _announce(self, revision: str = "", closed: float | None = None) -> None:
        """Record the data of this connection. `revision` is the new revision, or "" if it is unchanged."""
        self._revision = revision or self._revision
        conversation = self.conversation
        self._recorder.connect(
            ConnectionInfo(
                number=self.connection,
                server=self._server,
                transport=conversation.transport,
                peer=conversation.peer,
                revision=self._revision,
                opened=self.opened,
                closed=closed,
                principal=conversation.principal.name,
            )
        )


class FrameChannel:
    """Connection that receives and sends frames.

    Answers and notifications share one stream, so the channel itself is the outlet of every request.

    Frames that are sent in one turn of the loop are written and recorded together. `write` receives these
    frames and must not block.
    """

    may_send = True
    must_drain = False

    def __init__(
        self,
        open_dialogue: OpenDialogue,
        recorder: Recorder,
        large: LargeFrames,
        write: Callable[[Sequence[bytes]], None],
    ) -> None:
        self.dialogue = open_dialogue(self.send)
        self.connection = self.dialogue.connection
        self._record = recorder.frame_batch
        self._large = large
        self._write = write
        self._answer_tasks: dict[int, asyncio.Task[None]] = {}
        """Tasks that answer requests, by a local number."""
        self._answer_numbers = count()
        self._queued_frames: list[bytes] = []
        """Frames that the next flush writes."""
        self._phases: dict[int, Phases] = {}
        """Timing of the answers in `_queued_frames`, by index in `_queued_frames`."""
        self._sent_bytes = 0
        """Bytes in `_queued_frames` that handlers sent with `send`."""
        self._drain_time = 0.0
        """Monotonic time until which handlers may send without draining."""
        self._is_flush_due = False
        """True if a flush is scheduled, or follows later in the current call."""
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_open = True
        self._reserved_bytes = 0
        """Bytes reserved for large answers that were not passed to `write` yet. Afterwards, `write` counts
        them.
        """

    @property
    def may_batch(self) -> bool:
        """True if the peer's revision allows JSON-RPC batches."""
        return self.dialogue.conversation.may_batch

    def receive(self, frame: bytes, principal: Principal | None = None, note: HttpNote | None = None) -> None:
        """Handle a frame that arrived from `principal`. None stands for the dialogue's principal."""
        self.receive_all((frame,), principal, note)

    def receive_all(
        self, frames: Sequence[bytes], principal: Principal | None = None, note: HttpNote | None = None
    ) -> None:
        """Handle frames that arrived together. `note` is the HTTP context. With a `note`, `frames` must have
        exactly one frame.

        When this method returns, requests that need no handler are answered. Handlers start in the next turn
        of the loop.
        """
        messages: list[Any] = []
        invalid_indexes: list[int] = []
        for index, frame in enumerate(frames):
            try:
                if len(frame) >= LARGE_ANSWER_BYTES:
                    self._large.check(len(frame))
                messages.append(codec.decode(frame))
            except ProtocolError as error:
                messages.append(error)
                invalid_indexes.append(index)
        self._record(self.connection, Direction.IN, frames, invalid_indexes, note)
        self._is_flush_due = True
        accept = self.dialogue.accept_message
        for frame, message in zip(frames, messages, strict=True):
            if isinstance(message, ProtocolError):
                self._queue_answer(self.dialogue.conversation.error_reply(_id_of(frame), message, False))
                continue
            answer = accept(message, self, None, principal)
            if isinstance(answer, tuple):
                self._queue_answer(answer)
            else:
                size = len(frame) if len(frame) >= LARGE_ANSWER_BYTES else 0
                self._large.bytes += size
                number = next(self._answer_numbers)
                self._answer_tasks[number] = asyncio.create_task(self._answer(number, answer, size))
        self.flush()

    def send(self, message: bytes) -> None:
        """Queue one message. The next flush records and writes it."""
        if self._is_open:
            self._queued_frames.append(message)
            self._sent_bytes += len(message)
            if self._sent_bytes >= MAX_BURST_BYTES or monotonic() > self._drain_time:
                self.must_drain = True
            if not self._is_flush_due:
                self._schedule_flush()

    def flush(self) -> None:
        """Record and write the queued frames."""
        self._is_flush_due = False
        if frames := self._queued_frames:
            self._queued_frames = []
            self._sent_bytes = 0
            phases, self._phases = self._phases, {}
            self._record(self.connection, Direction.OUT, frames, (), None, phases)
            if self._reserved_bytes:
                self._change_reservation(-self._reserved_bytes)
            self._write(frames)

    async def drain(self) -> None:
        """Flush, let other tasks run, and wait if the peer reads too slowly."""
        self.flush()
        await asyncio.sleep(0)
        if not self._may_write.is_set():
            await self._may_write.wait()
        self._drain_time = monotonic() + MAX_TURN_S
        self.must_drain = self._sent_bytes >= MAX_BURST_BYTES

    def pause(self) -> None:
        """Make handlers wait in `drain`, because the peer reads too slowly."""
        self._may_write.clear()
        self.must_drain = True

    def resume(self) -> None:
        """Let handlers send again, because the peer has read enough."""
        self._may_write.set()

    async def reserve(self, size: int) -> None:
        """Wait until memory for an answer of this size in bytes is available. Raises: AnswerRefused."""
        if self._is_open:
            await UNREAD.reserve(size, self._change_reservation)

    def _change_reservation(self, change: int) -> None:
        """Reserve `change` bytes, or release them if it is negative."""
        if not self._is_open:
            return  # `close` has already released the reservation
        change = max(change, -self._reserved_bytes)  # a flush may already have released part of it
        self._reserved_bytes += change
        UNREAD.promise(change)

    def keep_alive(self) -> None:
        """Do nothing, because a pipe needs no keep-alive messages."""

    async def close_stream(self, retry_ms: int) -> bool:
        """Return False, because a pipe cannot be resumed."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """Return False, because only the owner of a pipe can end the pipe."""
        return False

    async def _answer(self, number: int, work: Coroutine[Any, Any, Reply], size: int) -> None:
        """Answer one request. `size` is the size of its frame in bytes, or 0 if the frame is not large."""
        try:
            self._queue_answer(await work)
        finally:
            del self._answer_tasks[number]
            self._large.bytes -= size

    async def drained(self) -> None:
        """Wait until all received requests are answered, and flush the answers."""
        while answer_tasks := [task for task in self._answer_tasks.values() if not task.done()]:
            await asyncio.wait(answer_tasks)
        self.flush()

    def close(self, reason: str = "connection closed") -> None:
        """End the calls after the peer has disconnected."""
        self.flush()
        self._change_reservation(-self._reserved_bytes)
        self._is_open = False
        UNREAD.wake()
        self._may_write.set()
        self.dialogue.close(reason)

    def _queue_answer(self, reply: Reply) -> None:
        """Queue the answer to a request. Flush at once unless other answers may follow in this turn."""
        _, body, phases = reply
        if body is not None and self._is_open:
            if phases is not None:
                self._phases[len(self._queued_frames)] = phases
            self._queued_frames.append(body)
            if not self._is_flush_due:
                if len(self._answer_tasks) > 1:
                    self._schedule_flush()  # answers to other requests may become ready in the same turn
                else:
                    self.flush()

    def _schedule_flush(self) -> None:
        """Flush in the next turn of the loop."""
        self._is_flush_due = True
        asyncio.get_running_loop().call_soon(self.flush)


class Pipe(FrameChannel):
    """Connection that receives and sends newline-delimited frames over any byte stream.

    `send_bytes` receives the output and must not block.
    """

    def __init__(
        self,
        open_dialogue: OpenDialogue,
        recorder: Recorder,
        large: LargeFrames,
        send_bytes: Callable[[bytes], None],
        has_unread_results: Callable[[], bool],
        limit: int = DEFAULT_LIMIT,
        session: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Open the dialogue of the pipe.

        `has_unread_results` returns True if clients may still ask for results of work that was started here.
        `session` identifies a session that another process may have served before. `environment` has the
        environment variables of the peer's process, without secrets, or is None if the peer has the
        environment of this process.
        """
        super().__init__(open_dialogue, recorder, large, self._write_lines)
        self.dialogue.conversation.environment = environment
        self.dialogue.conversation.has_own_lists = True
        self.token: ClientToken | None = None
        """Bearer token of the client, or None."""
        if session:
            self.dialogue.conversation.continue_session(session)
        self.send_bytes = send_bytes
        """Function that receives the output."""
        self._has_unread_results = has_unread_results
        self._framer = LineFramer(limit)
        self._handled_drops = 0
        """Number of overlong lines for which an error was sent."""

    def expect(self, token: ClientToken) -> None:
        """Set the client's token, before the first `feed`."""
        self.token = token

    async def identify(self) -> None:
        """Wait until the client's token is checked."""
        if self.token is not None:
            await self.token.settled()

    def feed(self, data: bytes) -> bool:
        """Handle the next bytes, which may end anywhere in a line.

        When this method returns, requests that need no handler are answered. Return False, and do nothing,
        while the client's token is being checked. Then await `identify`, and pass the same bytes again.
        """
        if self.token is not None:
            self.token.apply()
            if not self.token.is_settled:
                return False
        frames = self._framer.feed(data)
        if self._framer.dropped == self._handled_drops:
            if frames:
                self.receive_all(frames)
            return True
        self._handled_drops = self._framer.dropped
        for frame in frames:
            if frame:
                self.receive_all((frame,))
            else:
                self._is_flush_due = True
                self.send(codec.error_response(None, invalid(f"a line exceeds {self._framer.limit} bytes")))
        self.flush()
        return True

    def eof(self) -> None:
        """Handle the end of the input. A last line without a newline still counts."""
        last_line = self._framer.close()
        if last_line:
            if self.token is not None:
                self.token.apply()
            self.receive(last_line)
        self.dialogue.end_listening()

    def close(self, reason: str = "connection closed") -> None:
        """End the calls after the peer has disconnected."""
        if self.token is not None:
            self.token.close()
        super().close(reason)

    def leave(self) -> ClientState | None:
        """Close the pipe without an error, so that another server can continue. Return the client's state.

        Return None and leave the pipe open if a call of the peer is running, or if this process must keep
        work that was started here.
        """
        from mcpdesk.transports.replay import LISTEN, ClientState, pending_listener

        self.flush()
        conversation = self.dialogue.conversation
        unfinished_line = self._framer.unfinished_line()
        if unfinished_line is None or self._has_unread_results() or conversation.questioned_calls:
            return None
        calls = conversation.running
        if any(call.method != LISTEN for call in calls):
            return None
        client_state = ClientState()
        client_state.rest = unfinished_line
        session = conversation.session
        if session.opening is not None:
            client_state.opening = session.opening
            client_state.revision = session.terms.revision.name
            client_state.is_ready = session.phase is Phase.READY
            client_state.level = session.requested_level
            client_state.subscriptions = dict.fromkeys(session.subscriptions)
        for call in calls:
            client_state.in_flight[call.id] = pending_listener(call.id, call.params)
        self.close("a desk has taken over")
        return client_state

    def _write_lines(self, frames: Sequence[bytes]) -> None:
        """Send frames as lines."""
        if len(frames) > 1:
            self.send_bytes(b"\n".join([*frames, b""]))
        elif len(frames[0]) < LARGE_ANSWER_BYTES:
            self.send_bytes(frames[0] + b"\n")
        else:
            # Copying a large frame to append one byte costs more than a second write.
            self.send_bytes(frames[0])
            self.send_bytes(b"\n")


def _id_of(frame: bytes) -> Id | None:
    """Return the id to send back for a rejected frame, or None if the id cannot be read."""
    try:
        return readable_id(codec.decode(frame))
    except ProtocolError:
        return None
