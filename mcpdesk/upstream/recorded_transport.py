"""Client transport that records all messages to and from an upstream server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import time
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.client.oauth.values import Fetch, FetchResult
from mcpdesk.client.transport import ClientTransport, Incoming, Receive, ServerReply, SessionGone, excerpt
from mcpdesk.errors import AnswerCut, CallError, HttpError, SessionLost
from mcpdesk.protocol import codec
from mcpdesk.protocol.headers import adapted_headers
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id, meta_of, params_of, progress_token
from mcpdesk.protocol.reading.message import is_answer, same_id
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.protocol.revisions import BY_NAME, Revision
from mcpdesk.recorder.record import ConnectionInfo, Direction, HttpNote, RecordedRemark, Recorder

if TYPE_CHECKING:
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.interceptor import Interceptor, MessageQueue

OnReply = Callable[[str, ServerReply], None]
"""Function that is called with the method of each answered request, and the reply."""
CLIENT_STOPPED = "the client stopped waiting for the response"
"""Reason for a missing response, if the request was cancelled."""
UNANSWERED_QUESTION = "the call had ended before the server's question was answered"
"""Reason for a missing response to a request of a server."""
MAX_QUESTIONS = 1_000
"""Maximum number of unanswered requests of a server that are remembered."""
OPENING = "opening a stream"
"""Name that replaces the method if the connection was rejected before the first message."""


class _Pending(Struct, eq=False):
    """Request that has no reply yet."""

    identifier: Id


class RecordedTransport(ClientTransport):
    """Transport that records all messages and passes them to another transport. Use it on one event loop."""

    def __init__(
        self,
        transport: ClientTransport,
        recorder: Recorder,
        info: ConnectionInfo,
        interceptor: Interceptor,
        on_reply: OnReply,
        on_agreed: Callable[[ConnectionInfo], None],
        watch: Callable[[], ExchangeWatch | None],
    ) -> None:
        """`interceptor` may change, delay, answer or drop messages.

        `on_agreed` is called with the connection when the revision is negotiated. `watch` returns an
        observer of requests, or None.
        """
        self._inner = transport
        self._recorder = recorder
        self._info = info
        self._on_reply = on_reply
        self._interceptor = interceptor
        self._on_agreed = on_agreed
        self._watch = watch
        self._pending: dict[Id, _Pending] = {}
        """Pending requests by progress token, or by id if they have no token."""
        self._queues: dict[_Pending, MessageQueue] = {}
        """Pending requests with intercepted messages, and the queue of each."""
        self._unrelated_queue: MessageQueue | None = None
        """Queue for messages that belong to no pending request, or None before the connection is open."""
        self._questions = RequestTable[Id, Id | None](MAX_QUESTIONS)
        """Unanswered requests of the server, by id. The value is the id of the client's request on whose
        stream the request arrived, or None.
        """
        self.target = transport.target
        recorder.connect(info)

    @property
    def is_open(self) -> bool:
        """True if a request can be sent without opening the transport again."""
        return self._inner.is_open

    @property
    def mirrors_arguments(self) -> bool:
        """True if headers repeat the arguments of tools whose schemas require it."""
        return self._inner.mirrors_arguments

    @property
    def closing_cancels(self) -> bool:
        """True if closing an exchange cancels its request on the server."""
        return self._inner.closing_cancels

    @property
    def unexpected_bytes(self) -> str:
        """Description of the bytes that arrived instead of a valid answer to the latest request."""
        return self._inner.unexpected_bytes

    @property
    def probe_s(self) -> float | None:
        """Seconds without an answer to the first request after which a handshake is tried."""
        return self._inner.probe_s

    async def open(self, receive: Receive) -> None:
        """Connect. Raises: CallError."""
        try:
            self._unrelated_queue = self._unrelated_queue or self._new_queue(receive)
            await self._inner.open(self._recording(receive))
        except HttpError as error:
            if error.status:
                self._on_reply(OPENING, ServerReply(status=error.status))
            raise

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. Raises: CallError if no reply arrives."""
        watch = self._watch()
        if watch is None:
            return await self._exchange(request, headers, receive)
        request, watched_exchange = watch.ask(self._info, request)
        status = 0
        try:
            reply = await self._exchange(request, headers, receive)
            status = reply.status
            watched_exchange.handle_server_message(reply.message)
            return reply
        finally:
            watched_exchange.end(status, can_continue=False)

    async def _exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request, and record the request and its reply or the reason why no reply arrives."""
        identifier = request["id"]
        self._record(Direction.IN, codec.encode(request))
        try:
            if self._interceptor.is_active:
                reply = await self._intercepted_exchange(request, headers, receive)
            else:
                with self._registered(request) as pending:
                    reply = await self._inner.exchange(request, headers, self._recording(receive, pending))
                    if (queue := self._queues.get(pending)) is not None:
                        await queue.wait_until_empty()
        except BaseException as error:
            if isinstance(error, SessionGone) and error.reply is not None:
                self._record_lost_session(error.reply, identifier)
            else:
                self._record_missing_answer(
                    identifier, str(error) if isinstance(error, CallError) else CLIENT_STOPPED
                )
            raise
        finally:
            self.end_questions(identifier)
        self._record_remarks(reply.remarks, identifier)
        http_note = None
        if reply.status != 200:
            http_note = HttpNote(f"HTTP {reply.status}", tuple(reply.headers.items()))
        if reply.body or http_note is not None:
            is_json = reply.message is not None and not reply.remarks
            self._recorder.frame(self._info.number, Direction.OUT, reply.body, is_json, http_note)
        if not is_answer(reply.message) or not same_id(reply.message.get("id"), identifier):
            reason = f"HTTP {reply.status}" if http_note else "the answer is not a response to it"
            self._record_missing_answer(identifier, f"no response: {reason}")
        self._on_reply(request["method"], reply)
        return reply

    async def _intercepted_exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. The request and the reply pass through the interceptor.

        Raises: CallError.
        """
        interceptor, number, arrival = self._interceptor, self._info.number, time()
        revision = BY_NAME.get(self._info.revision) if self._info.transport == "http" else None
        has_sessions = revision is not None and not revision.is_stateless
        is_in_session = has_sessions and request["method"] != "initialize"
        try:
            sent_request, mock_answer = await interceptor.request(number, request, is_in_session)
        except SessionLost as error:
            raise SessionGone(str(error), self.target, status=404) from None
        if mock_answer is not None:
            return ServerReply(mock_answer, codec.encode(mock_answer))
        if sent_request is not None:
            is_changed = sent_request is not request
            sent_headers = adapted_headers(sent_request, headers) if is_changed else headers
            reply = await self._exchange_in_order(sent_request, sent_headers, receive)
            if not isinstance(reply.message, dict):
                return reply
            try:
                answer = await interceptor.answer(number, sent_request, arrival, reply.message)
            except AnswerCut as cut:
                raise CallError(str(cut), self.target) from None
            if answer is reply.message:
                return reply
            if answer is not None:
                return ServerReply(answer, codec.encode(answer), headers=reply.headers)
        await interceptor.wait_until_disconnected(number)
        raise CallError("dropped by the person at the desk", self.target)

    async def _exchange_in_order(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request. Return when the reply has arrived and all earlier messages were released.

        Raises: CallError if no reply arrives, or the first error of `receive`.
        """
        failures: list[CallError] = []

        def deliver(incoming: Incoming) -> None:
            try:
                receive(incoming)
            except CallError as error:
                failures.append(error)

        with self._registered(request) as pending:
            queue = self._queues[pending] = self._new_queue(deliver, pending.identifier)

            def put(incoming: Incoming) -> None:
                if incoming.message is None or "method" not in incoming.message:
                    self._record_unused(incoming)
                    deliver(incoming)
                else:
                    self._record_remarks(incoming.remarks, incoming.request)
                    self._remember_question(incoming.message, pending.identifier)
                    queue.put(_readable(incoming))

            reply = await self._inner.exchange(request, headers, put)
            await queue.wait_until_empty()
        if failures:
            raise failures[0]
        return reply

    async def send(self, message: JSONObject) -> None:
        """Send a notification or a response. Raises: CallError."""
        self._record(Direction.IN, codec.encode(message))
        if "method" not in message:
            self._questions.take(message["id"])
        if (watch := self._watch()) is not None:
            watch.follow(self._info, message)
        if self._interceptor.is_active:
            intercepted = await self._interceptor.one_way(self._info.number, message)
            if intercepted is None:
                return
            message = intercepted
        await self._inner.send(message)

    async def close(self) -> None:
        """End the connection and every exchange on it."""
        await self._inner.close()

    def apply_revision(self, revision: Revision, reply: ServerReply) -> None:
        """Record and apply the agreed revision."""
        self._info = replace(self._info, revision=revision.name)
        self._recorder.connect(self._info)
        self._inner.apply_revision(revision, reply)
        self._on_agreed(self._info)

    def older_transport(self) -> ClientTransport | None:
        """Return the transport to try next if the server supports no handshake over this transport."""
        older = self._inner.older_transport()
        if older is None:
            return None
        info = replace(self._info, transport="sse")
        return RecordedTransport(
            older, self._recorder, info, self._interceptor, self._on_reply, self._on_agreed, self._watch
        )

    async def listen(self, on_open: Callable[[], None]) -> None:
        """Receive messages that belong to no request, until cancelled."""
        await self._inner.listen(on_open)

    def record_fetch(self, request: Fetch, answer: FetchResult) -> None:
        """Record an authorization request and its response."""
        number, recorder = self._info.number, self._recorder
        request_note = HttpNote(f"{request.method} {request.url}", tuple(request.headers.items()))
        recorder.frame(number, Direction.IN, request.body or b"", False, request_note)
        answer_note = HttpNote(f"HTTP {answer.status}", tuple(answer.headers.items()))
        recorder.frame(number, Direction.OUT, answer.body, False, answer_note)

    def remark_on_fetch(self, text: str) -> None:
        """Record an error in the response that `record_fetch` recorded last."""
        self.record_remark(Remark(RemarkKind.OAUTH, text), None)

    def ended(self, end_time: float) -> None:
        """Record the end of the connection. `end_time` is Unix time in seconds."""
        self._interceptor.forget(self._info.number)
        if (watch := self._watch()) is not None:
            watch.connection_lost(self._info.number)
        self._info = replace(self._info, closed=end_time)
        self._recorder.connect(self._info)

    def _recording(self, receive: Receive, pending: _Pending | None = None) -> Receive:
        """Return a function that records the messages of a request and passes them to `receive`.

        With None for `pending`, the messages may belong to any request.
        """

        def record_and_deliver(incoming: Incoming) -> None:
            message = incoming.message
            if message is None or "method" not in message:
                self._record_unused(incoming)
                receive(incoming)
                return
            self._record_remarks(incoming.remarks, incoming.request)
            self._remember_question(message, None if pending is None else pending.identifier)
            if (watch := self._watch()) is not None:
                watch.handle_server_message(self._info, message)
            queue = self._queue_for(message, receive, pending) if self._is_intercepting else None
            if queue is not None:
                queue.put(_readable(incoming))
            else:
                data = incoming.frame or codec.encode(message)
                self._record(Direction.OUT, data, not incoming.remarks)
                receive(incoming)

        return record_and_deliver

    def _record_lost_session(self, reply: ServerReply, request: Id) -> None:
        """Record that the server lost the session. The request ends and will be sent again."""
        http_note = HttpNote(f"HTTP {reply.status}", tuple(reply.headers.items()))
        self._recorder.frame(self._info.number, Direction.OUT, reply.body, False, http_note)
        text = "the server has forgotten the session; a new one was started, and the request was sent again"
        self.record_remark(Remark(RemarkKind.SESSION, text, is_fault=True), request)

    def _record_missing_answer(self, request: Id, reason: str) -> None:
        """Record that a request gets no response."""
        remark = Remark(RemarkKind.NO_ANSWER, excerpt(reason) or CLIENT_STOPPED, is_fault=True)
        self.record_remark(remark, request)

    def _remember_question(self, message: JSONObject, request_id: Id | None) -> None:
        """Remember a request of the server until it is answered."""
        if is_id(identifier := message.get("id")):
            self._questions.add(identifier, request_id)

    def end_questions(self, request_id: Id | None = None) -> None:
        """Record that requests of the server get no answer: those that arrived on the stream of the request
        `request_id`, or all if `request_id` is None.
        """
        remark = Remark(RemarkKind.NO_ANSWER, UNANSWERED_QUESTION, is_fault=True)
        ended_questions = self._questions.take_all(
            lambda _, source_id: request_id is None or source_id == request_id
        )
        for identifier, _ in ended_questions:
            recorded = RecordedRemark(self._info.number, identifier, time(), remark, is_question=True)
            self._recorder.remark(recorded)

    def _record_unused(self, incoming: Incoming) -> None:
        """Record a message that is invalid or answers no pending request."""
        if incoming.frame:
            self._record(Direction.OUT, incoming.frame, is_json=False)
        self._record_remarks(incoming.remarks, incoming.request)

    def _record_remarks(self, remarks: Sequence[Remark], request: Id | None) -> None:
        for remark in remarks:
            self.record_remark(remark, request)

    def record_remark(self, remark: Remark, request: Id | None) -> None:
        """Record a remark on an answer of the server."""
        self._recorder.remark(RecordedRemark(self._info.number, request, time(), remark))

    @contextmanager
    def _registered(self, request: JSONObject) -> Iterator[_Pending]:
        """Register a request while its reply is awaited. Afterwards, drop messages of the request that are
        still held.

        Notifications other than progress are not dropped, because they are useful without the request.
        """
        pending = _Pending(request["id"])
        token = progress_token(meta_of(request))
        key = pending.identifier if token is None else token
        self._pending[key] = pending
        try:
            yield pending
        finally:
            if self._pending.get(key) is pending:
                del self._pending[key]
            queue = self._queues.pop(pending, None)
            held_messages = [] if queue is None else queue.close()
            for data in held_messages:
                message = codec.decode(data)
                is_useful = "id" not in message and progress_token(params_of(message)) is None
                if is_useful and self._unrelated_queue is not None:
                    self._unrelated_queue.put(data)

    @property
    def _is_intercepting(self) -> bool:
        """True if messages are intercepted now, or earlier messages still wait."""
        if self._interceptor.is_active:
            return True
        if self._unrelated_queue is not None and self._unrelated_queue.has_messages:
            return True
        return any(queue.has_messages for queue in self._queues.values())

    def _queue_for(
        self, message: JSONObject, receive: Receive, pending: _Pending | None
    ) -> MessageQueue | None:
        """Return the queue for a message.

        The message belongs to the request `pending`, or to the request that the message names. If the message
        names no request, it belongs to the only request with intercepted messages, or else to no request.

        Return None for progress of a request that is no longer pending, because no caller waits for this
        progress.
        """
        token = progress_token(params_of(message))
        if pending is None and token is not None:
            pending = self._pending.get(token)
            if pending is None:
                return None
        if pending is None:
            pending = next(iter(self._queues)) if len(self._queues) == 1 else None
        if pending is None:
            return self._unrelated_queue
        if pending not in self._queues:
            self._queues[pending] = self._new_queue(receive, pending.identifier)
        return self._queues[pending]

    def _new_queue(self, receive: Receive, request_id: Id | None = None) -> MessageQueue:
        """Return a queue whose messages are recorded and passed to `receive`."""

        def deliver(data: bytes) -> None:
            self._record(Direction.OUT, data)
            with suppress(CallError):
                receive(Incoming(codec.decode(data), data))

        async def answer(message: JSONObject) -> None:
            with suppress(CallError):
                await self._inner.send(message)

        return self._interceptor.open_queue(self._info.number, deliver, answer, request_id)

    def _record(self, direction: Direction, data: bytes, is_json: bool = True) -> None:
        self._recorder.frame(self._info.number, direction, data, is_json)


def _readable(incoming: Incoming) -> bytes:
    """Return a message in a form that a person can read while it waits."""
    is_plain = incoming.frame and not incoming.remarks
    return incoming.frame if is_plain else codec.encode(incoming.message)
