"""Forwarding of requests to upstream servers. Requests and responses are recorded."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from multidict import CIMultiDict

from mcpdesk.errors import AnswerCut, AnswerRefused, CallError, ProtocolError, SessionLost
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import Event, EventFramer
from mcpdesk.protocol.framing import event as encode_event
from mcpdesk.protocol.headers import adapted_headers
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, is_id, readable_id
from mcpdesk.protocol.methods import is_call
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.record import END_BYTES, MAX_KEPT_BYTES, Direction, HttpNote, RecordedRemark, beginning
from mcpdesk.transports.base import ForwardedAnswer, PassThrough
from mcpdesk.transports.http.callers import masked_data
from mcpdesk.transports.http.connections import HttpConnection, connection_of
from mcpdesk.transports.http.event_stream import break_off
from mcpdesk.transports.http.passing.passed_clients import PassedClient, PassedClients, RunningAnswer
from mcpdesk.transports.http.passing.relay_policy import (
    FIXED_HEADERS,
    body_kind,
    not_relayed_error,
    read_quote,
    relayed_headers,
    sent_headers,
)
from mcpdesk.transports.http.request_body import begin_body, body_pieces, read_body
from mcpdesk.transports.http.request_head import SESSION_HEADER, RequestHead, head_of, peer_of
from mcpdesk.transports.http.responses import (
    JSON,
    RETRY_AFTER,
    SANDBOX_HEADERS,
    STREAM,
    RequestRefused,
    content_type_error,
    json_answer,
    method_error,
    response_note,
    rpc_error,
    write_pieces,
)

if TYPE_CHECKING:
    from mcpdesk.recorder.exchange_watch import WatchedExchange
    from mcpdesk.transports.http.site import Site

METHODS = ("POST", "GET", "DELETE")
MAX_WHOLE_BYTES = 64 << 20
"""Maximum size in bytes of a request that is forwarded as one message. `max_body_bytes` may be less."""
_MESSAGE_HEADERS = frozenset({"accept", "content-type", "last-event-id", "mcp-method", "mcp-name"})
_EVENT = re.compile(rb"(\r\n\r\n|\n\n|\r\r)")
WHOLE_PIECE_BYTES = 1 << 20
"""Size in bytes from which a piece of an answer reserves memory, because it may be a whole message."""
SMALL_ANSWER_BYTES = 64 << 10
"""Maximum size in bytes of an answer that is sent together with its head."""
MAX_UNCLAIMED_MESSAGES = 1_000
"""Maximum number of messages that wait until the answer to a request is recorded."""
MAX_UNCLAIMED_BYTES = 4 << 20
"""Maximum total size in bytes of the messages that wait until the answer to a request is recorded."""
RESERVED_BYTES = 1 << 20
"""Number of bytes that are reserved at a time for the recorded beginning of an answer."""


class BodySample:
    """Part of a body to record: its beginning (up to `max_bytes` bytes), its end, and its size."""

    def __init__(self, max_bytes: int, can_keep: Callable[[int], bool] | None = None) -> None:
        """`can_keep` reserves memory for further bytes, or returns False. If it is None, all are kept."""
        self.start = bytearray()
        self._reserved_bytes = LARGE_ANSWER_BYTES  # a beginning of this size needs no reservation
        self._can_keep = can_keep
        self.end = b""
        self.size = 0
        self.max_bytes = max_bytes
        """Maximum size in bytes of the kept beginning. It is reduced if memory is short."""

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self.size += len(piece)
        self.end = (self.end + piece[-END_BYTES:])[-END_BYTES:]
        kept_piece = piece[: max(0, self.max_bytes - len(self.start))]
        if not kept_piece:
            return
        while self._can_keep is not None and len(self.start) + len(kept_piece) > self._reserved_bytes:
            if not self._can_keep(RESERVED_BYTES):
                self.max_bytes = len(self.start)
                return
            self._reserved_bytes += RESERVED_BYTES
        self.start += kept_piece


class UnclaimedMessages:
    """Messages of a server that the client of a request does not receive. They are recorded.

    Responses among them are recorded after the answer to the request, because the first recorded response
    counts as the answer.
    """

    def __init__(self, record: Callable[[bytes], None]) -> None:
        self._record = record
        self._queue: list[bytes] | None = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Add a message."""
        message = _decode(data)
        is_request = isinstance(message, dict) and "method" in message
        is_full = self._size + len(data) > MAX_UNCLAIMED_BYTES
        if is_request or is_full or self._queue is None or len(self._queue) >= MAX_UNCLAIMED_MESSAGES:
            self._record(data)
        else:
            self._queue.append(data)
            self._size += len(data)

    def flush(self) -> None:
        """Record the waiting messages. Call this when the answer to the request was recorded."""
        waiting, self._queue = self._queue, None
        for data in waiting or ():
            self._record(data)


class ForwardedRequest:
    """One forwarded request of a client."""

    def __init__(
        self,
        server: PassThrough,
        client: PassedClient,
        headers: Mapping[str, str],
        body: bytes,
        arrival: float,
        watched: WatchedExchange | None,
        on_unclaimed: Callable[[bytes], None],
    ) -> None:
        """`arrival` is the Unix time of the request. `watched` observes its answers, if given."""
        self.client = client
        self.has_lines = server.has_lines
        """True if the server must send each message as one line."""
        self.arrival = arrival
        self.watched = watched
        self._server = server
        self._on_unclaimed = on_unclaimed
        self._headers = headers
        self._body = body

    @cached_property
    def request(self) -> dict[str, Any] | None:
        """JSON-RPC request in the body, or None if the body is something else."""
        message = _decode(self._body)
        return message if _is_request(message) else None

    @property
    def is_one_way(self) -> bool:
        """True for a notification or response, which gets no answer."""
        message = _decode(self._body)
        return isinstance(message, dict) and not _is_request(message)

    async def send_to_server(self, message: dict[str, Any]) -> None:
        """Send a message to the server on behalf of the client."""
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
        for name, value in self._headers.items():
            if name.lower() not in _MESSAGE_HEADERS:
                headers[name] = value
        with suppress(CallError):
            async with self._server.ask("POST", headers, codec.encode(message), self._on_unclaimed):
                pass


class PassThroughRoutes:
    """Forwards the requests of one listener."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.clients = PassedClients(site.recorder, lambda: site.rules.session_ttl_s, self._on_client_left)
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def answer(self, request: web.BaseRequest, server: PassThrough) -> web.StreamResponse:
        """Forward a request and its response. If the client disconnects, the request is cancelled.

        Raises: RequestRefused.
        """
        head, limit = head_of(request), self._site.rules.max_body_bytes
        body, is_streamed = b"", False
        if head.method not in METHODS:
            raise RequestRefused(method_error(request, METHODS))
        if head.method == "POST":
            if head.content_type != JSON:
                raise RequestRefused(content_type_error(head.content_type))
            is_streamed = server.accepts_pieces and (head.body_size or 0) > limit
            if is_streamed:
                begin_body(request)
            else:
                max_bytes = limit if server.accepts_pieces else max(limit, MAX_WHOLE_BYTES)
                body = await read_body(request, max_bytes)
        message = _decode(body)
        address = peer_of(request).rpartition(":")[0]
        client = self.clients.sender(
            server.name, head.session or "", address, message, server.next_connection
        )
        if _is_request(message):
            client.pending_requests.add(message["id"])
            if is_call(message):
                client.count_call(message["id"])
        if body or (head.method == "POST" and not is_streamed):
            is_json = message is not None
            record = body if is_json else masked_data(body)
            self._site.recorder.frame(client.info.number, Direction.IN, record, is_json, head.http_note)
        running_answer, connection = RunningAnswer(), connection_of(request)
        connection.on_lost = running_answer.end
        client.running_answers.add(running_answer)
        watch = self._site.watch
        watched = None if watch is None else watch.follow(client.info, message, head.headers)
        answer: web.StreamResponse | None = None
        unclaimed = UnclaimedMessages(partial(self._record_unclaimed, client))
        try:
            answer = await self._exchange(request, server, client, body, is_streamed, watched, unclaimed.add)
            return answer
        except asyncio.CancelledError:
            if not running_answer.is_ended:
                raise
            connection.abort()  # the client disconnected, or a person disconnected it
            return web.Response(status=400)
        finally:
            unclaimed.flush()
            if watched is not None:
                may_resume = answer is None or _kind(answer.headers) == STREAM
                watched.end(0 if answer is None else answer.status, bool(head.session) and may_resume)
            if _is_request(message):
                self._record_missing_answer(client, message["id"], has_left=running_answer.is_ended)
            client.running_answers.discard(running_answer)
            client.seen = time.time()
            connection.on_lost = None

    def close(self) -> None:
        """Record that all clients have disconnected."""
        for client in self.clients.clients():
            self.clients.end(client)

    def disconnect(self, connection: int) -> bool:
        """Cancel the requests of a client and end its session. Return False if the number is unknown."""
        client = self.clients.find(connection)
        if client is None:
            return False
        for running_answer in list(client.running_answers):
            running_answer.end()
        server = self._site.pass_throughs.get(client.key.server)
        if server is not None and client.key.session:
            task = asyncio.create_task(_end_session(server, client.key.session))
            self._background_tasks.add(task)
            task.add_done_callback(self._background_tasks.discard)
        self.clients.end(client)
        return True

    def _on_client_left(self, connection: int) -> None:
        self.clients.forget_other_servers(self._site.pass_throughs)
        if (watch := self._site.watch) is not None:
            watch.connection_lost(connection)

    async def _exchange(
        self,
        request: web.BaseRequest,
        server: PassThrough,
        client: PassedClient,
        body: bytes,
        is_streamed: bool,
        watched: WatchedExchange | None,
        on_unclaimed: Callable[[bytes], None],
    ) -> web.StreamResponse:
        """Forward a request, and send its answer: as a whole, in pieces, or an error that replaces it."""
        head = head_of(request)
        if head.forwarded_headers is None:
            rules = self._site.rules
            head.forwarded_headers = sent_headers(head.headers, rules.api_key_header, rules.api_key)
        headers = head.forwarded_headers
        response: web.StreamResponse | None = None
        response_headers = CIMultiDict[str]()
        interceptor, arrival = self._site.interceptor, time.time()
        forwarded = ForwardedRequest(server, client, headers, body, arrival, watched, on_unclaimed)
        if interceptor.is_active and isinstance(message := _decode(body), dict):
            result = await self._intercepted_message(forwarded, message, bool(head.session))
            if isinstance(result, web.Response):
                return result
            if result is not message:
                body = codec.encode(result)
                headers = adapted_headers(result, headers) if "method" in result else headers
                forwarded = ForwardedRequest(server, client, headers, body, arrival, watched, on_unclaimed)
        try:
            sent_body: bytes | AsyncIterator[bytes] = body
            if is_streamed:
                headers = headers | {"Content-Length": str(head.body_size)}
                sent_body = self._recorded_body(request, client)
            async with server.ask(head.method, headers, sent_body, on_unclaimed) as answer:
                self._track_session(head, client, answer)
                kind = body_kind(answer.headers)
                response_headers = relayed_headers(answer.headers, kind)
                response_headers.update(SANDBOX_HEADERS | head.page_headers)
                if kind not in FIXED_HEADERS or not _is_relayed_status(answer.status):
                    return await self._quoting_error(answer, kind, response_headers, forwarded, head.method)
                size = response_headers.get("Content-Length", "")
                is_small = size.isdigit() and int(size) <= SMALL_ANSWER_BYTES
                if kind == JSON and (is_small or (interceptor.needs_answers and forwarded.request)):
                    return await self._buffered_answer(answer, response_headers, forwarded)
                if interceptor.is_active:
                    response_headers.popall("Content-Length", None)
                chunks = _reserving(answer.chunks(), connection_of(request))
                if kind == JSON:  # AnswerRefused can be answered properly only before anything is sent
                    chunks = _with_first(await anext(chunks, b""), chunks)
                response = web.StreamResponse(status=answer.status, headers=response_headers)
                await response.prepare(request)
                can_keep = connection_of(request).try_to_reserve
                await self._copy(answer.status, chunks, response, forwarded, can_keep)
                await response.write_eof()
                return response
        except AnswerCut as cut_answer:
            piece = encode_event(cut_answer.answer)
            if response is None:
                piece = cut_answer.answer
                response_headers["Content-Length"] = str(len(piece))
                response = web.StreamResponse(headers=response_headers)
            await break_off(request, response, piece[: len(piece) // 2])
            return response
        except AnswerRefused as refused:
            frame = codec.error_response(readable_id(_decode(body)), refused)
            if response is None or not response.prepared:
                self._record(forwarded, frame, response_note(503))
                return json_answer(503, frame, RETRY_AFTER)
            if _kind(response.headers) != STREAM:
                connection_of(request).abort()
                return response
            self._record(forwarded, frame, response_note(200, STREAM))
            await response.write(encode_event(frame))
            await response.write_eof()
            return response
        except (CallError, ConnectionError, ClientConnectionResetError) as error:
            if response is not None and response.prepared:
                connection_of(request).abort()  # a normal end would make the incomplete answer look complete
                return response
            text = f"{server.name} cannot be asked: {error}"
            internal = ProtocolError(ErrorCode.INTERNAL_ERROR, text)
            refusal = rpc_error(502, internal, readable_id(_decode(body)))
            assert isinstance(refusal.body, bytes)
            self._record(forwarded, refusal.body, response_note(502))
            return refusal

    async def _intercepted_message(
        self, forwarded: ForwardedRequest, message: dict[str, Any], in_session: bool
    ) -> dict[str, Any] | web.Response:
        """Intercept a message. Return the message to forward, or the response to send instead."""
        interceptor, number = self._site.interceptor, forwarded.client.info.number
        if not _is_request(message):
            result = await interceptor.one_way(number, message)
            return web.Response(status=202) if result is None else result
        try:
            forwarded_message, given_answer = await interceptor.request(number, message, in_session)
        except SessionLost as error:
            response = rpc_error(404, ProtocolError(ErrorCode.INVALID_REQUEST, str(error)), message["id"])
            assert isinstance(response.body, bytes)
            self._record(forwarded, response.body, response_note(404))
            return response
        if given_answer is not None:
            self._record(forwarded, codec.encode(given_answer), None)
            return json_answer(200, codec.encode(given_answer))
        if forwarded_message is None:
            await interceptor.wait_until_disconnected(number)
            return web.Response(status=202)
        return forwarded_message

    async def _buffered_answer(
        self, answer: ForwardedAnswer, headers: CIMultiDict[str], forwarded: ForwardedRequest
    ) -> web.StreamResponse:
        """Send an answer that consists of one JSON value.

        The answer to a request is intercepted.
        """
        body = b"".join([piece async for piece in answer.chunks()])
        interceptor, number = self._site.interceptor, forwarded.client.info.number
        request = forwarded.request if interceptor.needs_answers else None
        message = None if request is None else _decode(body)
        if request is not None and isinstance(message, dict):
            result = await interceptor.answer(number, request, forwarded.arrival, message)
            if result is None:
                await interceptor.wait_until_disconnected(number)
                return web.Response(status=202)
            body = body if result is message else codec.encode(result)
        http_note = None if answer.status == 200 else response_note(answer.status, JSON)
        await self._record_relayed(forwarded, body, http_note)
        headers.popall("Content-Length", None)
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _quoting_error(
        self,
        answer: ForwardedAnswer,
        kind: str,
        headers: CIMultiDict[str],
        forwarded: ForwardedRequest,
        method: str,
    ) -> web.Response:
        """Return an error that quotes an answer which must not be sent. Without a quote, return a status."""
        status = answer.status
        body = await read_quote(answer.chunks())
        headers.popall("Content-Length", None)
        expects_body = status >= 400 or not (method == "DELETE" or forwarded.is_one_way)
        if _is_relayed_status(status) and not (body and expects_body):
            if status >= 400:
                self._record(forwarded, b"", response_note(status))
            return web.Response(status=status, headers=headers)
        location = next((value for name, value in answer.headers if name.lower() == "location"), "")
        error = not_relayed_error(forwarded.client.key.server, status, kind, body, location)
        refusal = codec.error_response(None if forwarded.request is None else forwarded.request["id"], error)
        sent_status = status if 400 <= status < 600 else 502
        self._record(forwarded, refusal, response_note(sent_status))
        headers.update(FIXED_HEADERS[JSON])
        return web.Response(status=sent_status, body=refusal, headers=headers)

    async def _intercepted_events(
        self,
        piece: bytes,
        chunks: AsyncIterator[bytes],
        response: web.StreamResponse,
        framer: EventFramer,
        forwarded: ForwardedRequest,
    ) -> bool:
        """Send the events one by one while messages are intercepted.

        Return False if the answer was dropped. Nothing more may be sent then.
        """
        interceptor, http_note = self._site.interceptor, response_note(response.status, STREAM)
        rest = piece
        while True:
            *complete, rest = _EVENT.split(rest)
            for block in map(b"".join, zip(complete[::2], complete[1::2], strict=True)):
                try:
                    events = framer.feed(block)
                except ValueError:
                    raise ConnectionError("the event is too long to hold") from None
                for event in events:
                    result = await self._intercepted_event(event.data, forwarded)
                    if result is None and _is_answer(_decode(event.data), forwarded.request):
                        await interceptor.wait_until_disconnected(forwarded.client.info.number)
                        return False
                    if result is not None:
                        await self._record_relayed(forwarded, result, http_note)
                    if result is None:
                        block = b""
                    elif result != event.data:
                        id_line = f"id: {framer.last_id}\n" if framer.last_id else ""
                        head = f"event: {event.name}\n{id_line}".encode()
                        block = b"%bdata: %b\n\n" % (head, result)
                await response.write(block)
            if not (rest or interceptor.is_active):
                return True
            if len(rest) > framer.limit:
                raise ConnectionError("the event is too long to hold")
            try:
                rest += await anext(chunks)
            except StopAsyncIteration:
                await response.write(rest)
                return True

    async def _intercepted_event(self, data: bytes, forwarded: ForwardedRequest) -> bytes | None:
        """Intercept the message in an event. Return the data to send, or None to send nothing."""
        interceptor, number, request = self._site.interceptor, forwarded.client.info.number, forwarded.request
        message = _decode(data)
        if not isinstance(message, dict):
            return data
        if "method" in message:
            request_id = None if request is None else request["id"]
            return await interceptor.sent(number, data, forwarded.send_to_server, request_id)
        if request is None or not _is_answer(message, request):
            return data
        result = await interceptor.answer(number, request, forwarded.arrival, message)
        if result is message:
            return data
        return None if result is None else codec.encode(result)

    async def _copy(
        self,
        status: int,
        chunks: AsyncIterator[bytes],
        response: web.StreamResponse,
        forwarded: ForwardedRequest,
        can_keep: Callable[[int], bool],
    ) -> None:
        """Send a body in pieces, and record the messages in it."""
        max_bytes, interceptor = self._site.rules.max_body_bytes, self._site.interceptor
        client = forwarded.client
        kind = _kind(response.headers)
        http_note = response_note(status, kind)
        is_stream = kind == STREAM
        framer = EventFramer(max_bytes) if is_stream else None
        sample = BodySample(MAX_KEPT_BYTES) if is_stream else BodySample(max_bytes, can_keep)
        note = None if status == 200 else http_note
        try:
            async for piece in chunks:
                sampled_piece = piece
                if interceptor.is_active and framer is not None and framer.is_between_events:
                    if not await self._intercepted_events(piece, chunks, response, framer, forwarded):
                        return
                    continue
                if framer is not None:
                    try:
                        await self._record_events(forwarded, framer.feed(piece), http_note)
                        if b"\n\n" in piece:
                            sample = BodySample(MAX_KEPT_BYTES)
                            sampled_piece = piece.rpartition(b"\n\n")[2]
                    except ValueError:
                        framer = None  # an event is too large, so parsing stops
                sample.add(sampled_piece)
                await write_pieces(response, (piece,))
        except BaseException:  # the client or the server disconnected
            if not is_stream and sample.size:
                self._record_cut(client, Direction.OUT, sample, note)
            raise
        if is_stream and framer is None:
            sample.start = sample.start[max(0, sample.start.find(b"{")) :]
            sample.end = sample.end.rstrip()
            self._record_cut(client, Direction.OUT, sample, http_note)
        elif not is_stream and sample.size > sample.max_bytes:
            self._record_cut(client, Direction.OUT, sample, note)
        elif not is_stream and (sample.size or status >= 400):
            await self._record_relayed(forwarded, bytes(sample.start), note)

    async def _recorded_body(self, request: web.BaseRequest, client: PassedClient) -> AsyncIterator[bytes]:
        """Yield a body in pieces. A sample of it is recorded when the body has ended or is cut off."""
        sample = BodySample(MAX_KEPT_BYTES)
        try:
            async for piece in body_pieces(request):
                sample.add(piece)
                yield piece
        finally:
            self._record_cut(client, Direction.IN, sample, head_of(request).http_note)

    def _record_cut(
        self, client: PassedClient, direction: Direction, sample: BodySample, note: HttpNote | None
    ) -> None:
        start, end = masked_data(beginning(bytes(sample.start), MAX_KEPT_BYTES)), masked_data(sample.end)
        number, size = client.info.number, sample.size
        self._site.recorder.frame(number, direction, start, False, note, size=size, end=end)

    def _record(self, forwarded: ForwardedRequest, data: bytes, http_note: HttpNote | None) -> None:
        self._record_message(forwarded, data, http_note, _decode(data))

    async def _record_events(
        self, forwarded: ForwardedRequest, events: Iterable[Event], http_note: HttpNote | None
    ) -> None:
        """Record the messages of a stream, including unparsed ones after the client disconnected."""
        waiting = deque(events)
        try:
            while waiting:
                await self._record_relayed(forwarded, waiting.popleft().data, http_note)
        finally:
            for event in waiting:
                self._record_unparsed(forwarded, event.data, http_note)

    async def _record_relayed(
        self, forwarded: ForwardedRequest, data: bytes, http_note: HttpNote | None
    ) -> None:
        """Record a message of the server. A large message is parsed on a worker thread."""
        message = _decode(data)
        read = None
        if message is None and len(data) > QUICK_BYTES:
            try:
                read = await asyncio.to_thread(read_frame, data, is_line=forwarded.has_lines)
            except asyncio.CancelledError:  # the client has disconnected
                self._record_unparsed(forwarded, data, http_note)
                raise
        self._record_message(forwarded, data, http_note, message, read)

    def _record_unparsed(self, forwarded: ForwardedRequest, data: bytes, http_note: HttpNote | None) -> None:
        number = forwarded.client.info.number
        self._site.recorder.frame(number, Direction.OUT, masked_data(data), False, http_note)

    def _record_message(
        self,
        forwarded: ForwardedRequest,
        data: bytes,
        http_note: HttpNote | None,
        message: Any,
        read: ReadFrame | None = None,
    ) -> None:
        """Record a message of the server. `read` is the message as leniently parsed, or None to parse it."""
        client = forwarded.client
        is_json = message is not None
        if not is_json or (forwarded.has_lines and b"\n" in data):
            message = self._remark(client, read or read_frame(data, is_line=forwarded.has_lines))
        if forwarded.watched is not None:
            forwarded.watched.handle_server_message(message)
        if isinstance(message, dict) and "method" not in message and is_id(identifier := message.get("id")):
            client.count_answer(identifier, is_failure(message))
        record = data if is_json else masked_data(data)
        self._site.recorder.frame(client.info.number, Direction.OUT, record, is_json, http_note)

    def _record_missing_answer(self, client: PassedClient, request: Id, *, has_left: bool) -> None:
        """Record that a request got no response, unless it was answered. `has_left` is about the client."""
        if request in client.pending_requests:
            client.pending_requests.discard(request)
            reason = "the client left before the response" if has_left else "the server sent no response"
            remark = Remark(RemarkKind.NO_ANSWER, reason, is_fault=True)
            self._site.recorder.remark(RecordedRemark(client.info.number, request, time.time(), remark))

    def _record_unclaimed(self, client: PassedClient, data: bytes) -> None:
        is_json = _decode(data) is not None
        record = data if is_json else masked_data(data)
        self._site.recorder.frame(client.info.number, Direction.OUT, record, is_json)

    def _remark(self, client: PassedClient, read: ReadFrame) -> Any:
        """Record the errors in a message. Return the message as far as it can be read."""
        identifier = read.value.get("id") if isinstance(read.value, dict) else read.id
        remarks = read.remarks if read.fault is None else (*read.remarks, read.fault)
        for remark in remarks:
            request_id = identifier if is_id(identifier) else None
            self._site.recorder.remark(RecordedRemark(client.info.number, request_id, time.time(), remark))
        return read.value

    def _track_session(self, head: RequestHead, client: PassedClient, answer: ForwardedAnswer) -> None:
        """Record that a session has begun or ended."""
        header = SESSION_HEADER.lower()
        new_session = next((value for name, value in answer.headers if name.lower() == header), "")
        if new_session and head.session is None:
            self.clients.begin_session(client, new_session)
        is_deleted = head.method == "DELETE" and 200 <= answer.status < 300
        if head.session and (answer.status == 404 or is_deleted):
            self.clients.end(client)


def is_failure(message: dict[str, Any]) -> bool:
    """Return True if a message is an error, or the result of a tool that failed."""
    result = message.get("result")
    return "error" in message or (isinstance(result, dict) and result.get("isError") is True)


async def _reserving(chunks: AsyncIterator[bytes], connection: HttpConnection) -> AsyncIterator[bytes]:
    """Yield the pieces of a body. Memory for a large piece is reserved until the next one is read.

    Small pieces need no reservation, because the next piece is read only after the client has read the last
    piece. Raises: AnswerRefused.
    """
    async for piece in chunks:
        if len(piece) < WHOLE_PIECE_BYTES:
            yield piece
            continue
        await connection.reserve(len(piece))
        yield piece
        connection.give_back(len(piece))


async def _with_first(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


async def _end_session(server: PassThrough, session: str) -> None:
    with suppress(CallError):
        async with server.ask("DELETE", {SESSION_HEADER: session}, b""):
            pass


def _is_relayed_status(status: int) -> bool:
    """Return True for a status that is forwarded: not a redirect, and not outside of HTTP."""
    return 200 <= status < 300 or 400 <= status < 600


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _is_request(message: Any) -> bool:
    return isinstance(message, dict) and is_id(message.get("id")) and "method" in message


def _is_answer(message: Any, request: dict[str, Any] | None) -> bool:
    """Return True if a message answers a request."""
    is_response = isinstance(message, dict) and "method" not in message
    return is_response and request is not None and message.get("id") == request["id"]


def _decode(data: bytes) -> Any:
    """Return the JSON value of a body, or None if it is not JSON."""
    try:
        return codec.decode(data)
    except ProtocolError:
        return None
