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
from mcpdesk.protocol.framing import event as framed
from mcpdesk.protocol.headers import adapted_headers
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, is_id, readable_id
from mcpdesk.protocol.methods import is_call
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.record import END_BYTES, MAX_KEPT_BYTES, Direction, HttpNote, RecordedRemark, beginning
from mcpdesk.transports.base import ForwardedAnswer, PassThrough
from mcpdesk.transports.http.callers import unreadable
from mcpdesk.transports.http.connections import HttpConnection, connection_of
from mcpdesk.transports.http.event_stream import break_off
from mcpdesk.transports.http.passing.passed_clients import PassedClient, PassedClients, Work
from mcpdesk.transports.http.passing.relay_policy import (
    FIXED_HEADERS,
    body_kind,
    not_relayed,
    quoted,
    relayed_headers,
    sent_headers,
)
from mcpdesk.transports.http.request_body import begin_body, body_pieces, read_body
from mcpdesk.transports.http.request_head import SESSION_HEADER, RequestHead, head_of, peer_of
from mcpdesk.transports.http.responses import (
    CONFINED,
    JSON,
    RETRY_AFTER,
    STREAM,
    RequestRefused,
    json_answer,
    no_json,
    no_method,
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


class Seen:
    """Part of a body to record: its beginning (up to `most` bytes), its end, and its size."""

    def __init__(self, most: int, may_keep: Callable[[int], bool] | None = None) -> None:
        """`may_keep` returns True if the given number of further bytes may be kept, or is None if all bytes
        may be kept.
        """
        self.start = bytearray()
        self._room = LARGE_ANSWER_BYTES
        self._may_keep = may_keep
        self.end = b""
        self.size = 0
        self.most = most
        """Maximum size in bytes of the kept beginning. It is reduced if memory is short."""

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self.size += len(piece)
        self.end = (self.end + piece[-END_BYTES:])[-END_BYTES:]
        if (room := self.most - len(self.start)) <= 0:
            return
        while self._may_keep is not None and len(self.start) + min(room, len(piece)) > self._room:
            if not self._may_keep(RESERVED_BYTES):
                self.most = len(self.start)
                return
            self._room += RESERVED_BYTES
        self.start += piece[:room]


class UnclaimedMessages:
    """Messages of a server that the client of a request does not receive. They are recorded.

    Responses among them are recorded after the answer to the request, because the first recorded response
    counts as the answer.
    """

    def __init__(self, record: Callable[[bytes], None]) -> None:
        self._record = record
        self._waiting: list[bytes] | None = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Add a message."""
        message = _decoded(data)
        is_request = isinstance(message, dict) and "method" in message
        is_full = self._size + len(data) > MAX_UNCLAIMED_BYTES
        if is_request or is_full or self._waiting is None or len(self._waiting) >= MAX_UNCLAIMED_MESSAGES:
            self._record(data)
        else:
            self._waiting.append(data)
            self._size += len(data)

    def answered(self) -> None:
        """Record the waiting messages. Call this when the answer to the request was recorded."""
        waiting, self._waiting = self._waiting, None
        for data in waiting or ():
            self._record(data)


class ForwardedRequest:
    """One forwarded request of a client."""

    def __init__(
        self,
        passed: PassThrough,
        client: PassedClient,
        headers: Mapping[str, str],
        body: bytes,
        came: float,
        followed: WatchedExchange | None,
        on_unclaimed: Callable[[bytes], None],
    ) -> None:
        """`came` is the Unix time of the request. `followed` observes the answers to the request, or is
        None.
        """
        self.client = client
        self.has_lines = passed.has_lines
        """True if the server must send each message as one line."""
        self.came = came
        self.followed = followed
        self._passed = passed
        self._on_unclaimed = on_unclaimed
        self._headers = headers
        self._body = body

    @cached_property
    def request(self) -> dict[str, Any] | None:
        """JSON-RPC request in the body, or None if the body is something else."""
        message = _decoded(self._body)
        return message if _is_request(message) else None

    @property
    def is_one_way(self) -> bool:
        """True for a notification or response, which gets no answer."""
        message = _decoded(self._body)
        return isinstance(message, dict) and not _is_request(message)

    async def send_to_server(self, message: dict[str, Any]) -> None:
        """Send a message to the server on behalf of the client."""
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {STREAM}"}
        headers |= {name: it for name, it in self._headers.items() if name.lower() not in _MESSAGE_HEADERS}
        with suppress(CallError):
            async with self._passed.ask("POST", headers, codec.encode(message), self._on_unclaimed):
                pass


class PassThroughRoutes:
    """Forwards the requests of one listener."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.clients = PassedClients(site.recorder, lambda: site.rules.session_ttl_s, self._left)
        self._chores: set[asyncio.Task[None]] = set()

    async def answer(self, request: web.BaseRequest, passed: PassThrough) -> web.StreamResponse:
        """Forward a request and its response. If the client disconnects, the request is cancelled.

        Raises: RequestRefused.
        """
        head, body, limit = head_of(request), b"", self._site.rules.max_body_bytes
        is_streamed = False
        if head.method not in METHODS:
            raise RequestRefused(no_method(request, METHODS))
        if head.method == "POST":
            if head.content_type != JSON:
                raise RequestRefused(no_json(head.content_type))
            is_streamed = passed.accepts_pieces and (head.body_size or 0) > limit
            if is_streamed:
                begin_body(request)
            else:
                body = await read_body(
                    request, limit if passed.accepts_pieces else max(limit, MAX_WHOLE_BYTES)
                )
        message = _decoded(body)
        address = peer_of(request).rpartition(":")[0]
        client = self.clients.sender(
            passed.name, head.session or "", address, message, passed.next_connection
        )
        if _is_request(message):
            client.awaited.add(message["id"])
            if is_call(message):
                client.note_call(message["id"])
        if body or (head.method == "POST" and not is_streamed):
            is_json = message is not None
            self._site.recorder.frame(
                client.info.number,
                Direction.IN,
                body if is_json else unreadable(body),
                is_json,
                head.http_note,
            )
        work, connection = Work(), connection_of(request)
        connection.on_lost = work.end
        client.works.add(work)
        watch = self._site.watch
        followed = None if watch is None else watch.follow(client.info, message, head.headers)
        answer: web.StreamResponse | None = None
        unclaimed = UnclaimedMessages(partial(self._record_unclaimed, client))
        try:
            answer = await self._exchange(request, passed, client, body, is_streamed, followed, unclaimed.add)
            return answer
        except asyncio.CancelledError:
            if not work.is_ended:
                raise
            connection.abort()  # the client disconnected, or a person disconnected it
            return web.Response(status=400)
        finally:
            unclaimed.answered()
            if followed is not None:
                is_whole = answer is not None and _kind(answer.headers) != STREAM
                followed.over(0 if answer is None else answer.status, bool(head.session) and not is_whole)
            if _is_request(message):
                self._end_unanswered(client, message["id"], is_gone=work.is_ended)
            client.works.discard(work)
            client.seen = time.time()
            connection.on_lost = None

    def close(self) -> None:
        """Note that all clients have disconnected."""
        for client in self.clients.clients():
            self.clients.end(client)

    def disconnect(self, connection: int) -> bool:
        """Cancel the requests of a client and end its session. Return False if the number is unknown."""
        client = self.clients.find(connection)
        if client is None:
            return False
        for work in list(client.works):
            work.end()
        passed = self._site.pass_throughs.get(client.key.server)
        if passed is not None and client.key.session:
            task = asyncio.create_task(_end_session(passed, client.key.session))
            self._chores.add(task)
            task.add_done_callback(self._chores.discard)
        self.clients.end(client)
        return True

    def _left(self, connection: int) -> None:
        self.clients.forget_other_servers(self._site.pass_throughs)
        if (watch := self._site.watch) is not None:
            watch.left(connection)

    async def _exchange(
        self,
        request: web.BaseRequest,
        passed: PassThrough,
        client: PassedClient,
        body: bytes,
        is_streamed: bool,
        followed: WatchedExchange | None,
        on_unclaimed: Callable[[bytes], None],
    ) -> web.StreamResponse:
        head = head_of(request)
        if head.forwarded_headers is None:
            rules = self._site.rules
            head.forwarded_headers = sent_headers(head.headers, rules.api_key_header, rules.api_key)
        headers = head.forwarded_headers
        response: web.StreamResponse | None = None
        kept_headers = CIMultiDict[str]()
        interceptor, came = self._site.interceptor, time.time()
        talk = ForwardedRequest(passed, client, headers, body, came, followed, on_unclaimed)
        if interceptor.is_active and isinstance(message := _decoded(body), dict):
            passed_on = await self._intercepted_message(talk, message, bool(head.session))
            if isinstance(passed_on, web.Response):
                return passed_on
            if passed_on is not message:
                body = codec.encode(passed_on)
                headers = adapted_headers(passed_on, headers) if "method" in passed_on else headers
                talk = ForwardedRequest(passed, client, headers, body, came, followed, on_unclaimed)
        try:
            sending: bytes | AsyncIterator[bytes] = body
            if is_streamed:
                headers = headers | {"Content-Length": str(head.body_size)}
                sending = self._sent(request, client)
            async with passed.ask(head.method, headers, sending, on_unclaimed) as answer:
                self._note_session(head, client, answer)
                kind = body_kind(answer.headers)
                kept_headers = relayed_headers(answer.headers, kind)
                kept_headers.update(CONFINED | head.page_headers)
                if kind not in FIXED_HEADERS or not 200 <= answer.status < 600 or 300 <= answer.status < 400:
                    return await self._quoted(answer, kind, kept_headers, talk, head.method)
                size = kept_headers.get("Content-Length", "")
                is_small = size.isdigit() and int(size) <= SMALL_ANSWER_BYTES
                if kind == JSON and (is_small or (interceptor.needs_answers and talk.request)):
                    return await self._buffered_answer(answer, kept_headers, talk)
                if interceptor.is_active:
                    kept_headers.popall("Content-Length", None)
                chunks = _counted(answer.chunks(), connection_of(request))
                if kind == JSON:  # AnswerRefused can be answered properly only before anything is sent
                    chunks = _resumed(await anext(chunks, b""), chunks)
                response = web.StreamResponse(status=answer.status, headers=kept_headers)
                await response.prepare(request)
                may_keep = connection_of(request).try_to_reserve
                await self._copy(answer.status, chunks, response, talk, may_keep)
                await response.write_eof()
                return response
        except AnswerCut as cut:
            piece = framed(cut.answer)
            if response is None:
                piece = cut.answer
                kept_headers["Content-Length"] = str(len(piece))
                response = web.StreamResponse(headers=kept_headers)
            await break_off(request, response, piece[: len(piece) // 2])
            return response
        except AnswerRefused as refused:
            frame = codec.error_response(readable_id(_decoded(body)), refused)
            if response is None or not response.prepared:
                self._record(talk, frame, response_note(503))
                return json_answer(503, frame, RETRY_AFTER)
            if _kind(response.headers) != STREAM:
                connection_of(request).abort()
                return response
            self._record(talk, frame, response_note(200, STREAM))
            await response.write(framed(frame))
            await response.write_eof()
            return response
        except (CallError, ConnectionError, ClientConnectionResetError) as error:
            if response is not None and response.prepared:
                connection_of(request).abort()  # a normal end would make the incomplete answer look complete
                return response
            text = f"{passed.name} cannot be asked: {error}"
            internal = ProtocolError(ErrorCode.INTERNAL_ERROR, text)
            refusal = rpc_error(502, internal, readable_id(_decoded(body)))
            assert isinstance(refusal.body, bytes)
            self._record(talk, refusal.body, response_note(502))
            return refusal

    async def _intercepted_message(
        self, talk: ForwardedRequest, message: dict[str, Any], in_session: bool
    ) -> dict[str, Any] | web.Response:
        """Intercept a message. Return the message to forward, or the response to send instead."""
        interceptor, number = self._site.interceptor, talk.client.info.number
        if not _is_request(message):
            passed = await interceptor.one_way(number, message)
            return web.Response(status=202) if passed is None else passed
        try:
            sent, given = await interceptor.request(number, message, in_session)
        except SessionLost as lost:
            gone = rpc_error(404, ProtocolError(ErrorCode.INVALID_REQUEST, str(lost)), message["id"])
            assert isinstance(gone.body, bytes)
            self._record(talk, gone.body, response_note(404))
            return gone
        if given is not None:
            self._record(talk, codec.encode(given), None)
            return json_answer(200, codec.encode(given))
        if sent is None:
            await interceptor.lose(number)
            return web.Response(status=202)
        return sent

    async def _buffered_answer(
        self, answer: ForwardedAnswer, headers: CIMultiDict[str], talk: ForwardedRequest
    ) -> web.StreamResponse:
        """Send an answer that consists of one JSON value.

        The answer to a request is intercepted.
        """
        body, interceptor, client = (
            b"".join([piece async for piece in answer.chunks()]),
            self._site.interceptor,
            talk.client,
        )
        if (
            interceptor.needs_answers
            and (request := talk.request)
            and isinstance(message := _decoded(body), dict)
        ):
            passed = await interceptor.answer(client.info.number, request, talk.came, message)
            if passed is None:
                await interceptor.lose(client.info.number)
                return web.Response(status=202)
            body = body if passed is message else codec.encode(passed)
        http_note = None if answer.status == 200 else response_note(answer.status, JSON)
        await self._record_relayed(talk, body, http_note)
        headers.popall("Content-Length", None)
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _quoted(
        self,
        answer: ForwardedAnswer,
        kind: str,
        headers: CIMultiDict[str],
        talk: ForwardedRequest,
        method: str,
    ) -> web.Response:
        """Return an error that quotes an answer which must not be sent. If no body is expected, the error has
        only the status.
        """
        status, is_answer = answer.status, 200 <= answer.status < 300 or 400 <= answer.status < 600
        body = await quoted(answer.chunks())
        headers.popall("Content-Length", None)
        has_quote = status >= 400 or not (method == "DELETE" or talk.is_one_way)
        if is_answer and not (body and has_quote):
            if status >= 400:
                self._record(talk, b"", response_note(status))
            return web.Response(status=status, headers=headers)
        location = next((value for name, value in answer.headers if name.lower() == "location"), "")
        error = not_relayed(talk.client.key.server, status, kind, body, location)
        refusal = codec.error_response(None if talk.request is None else talk.request["id"], error)
        shown = status if 400 <= status < 600 else 502
        self._record(talk, refusal, response_note(shown))
        headers.update(FIXED_HEADERS[JSON])
        return web.Response(status=shown, body=refusal, headers=headers)

    async def _intercepted_events(
        self,
        piece: bytes,
        chunks: AsyncIterator[bytes],
        response: web.StreamResponse,
        framer: EventFramer,
        talk: ForwardedRequest,
    ) -> bool:
        """Send the events one by one while messages are intercepted.

        Return False if the answer was dropped. Nothing more may be sent then.
        """
        rest, interceptor, http_note = piece, self._site.interceptor, response_note(response.status, STREAM)
        while True:
            *complete, rest = _EVENT.split(rest)
            for block in map(b"".join, zip(complete[::2], complete[1::2], strict=True)):
                try:
                    events = framer.feed(block)
                except ValueError:
                    raise ConnectionError("the event is too long to hold") from None
                for event in events:
                    passed = await self._intercepted_event(event.data, talk)
                    if passed is None and _is_answer(_decoded(event.data), talk.request):
                        await interceptor.lose(talk.client.info.number)
                        return False
                    if passed is not None:
                        await self._record_relayed(talk, passed, http_note)
                    if passed != event.data:
                        named = f"event: {event.name}\n" + (
                            f"id: {framer.last_id}\n" if framer.last_id else ""
                        )
                        block = b"" if passed is None else b"%bdata: %b\n\n" % (named.encode(), passed)
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

    async def _intercepted_event(self, data: bytes, talk: ForwardedRequest) -> bytes | None:
        """Intercept the message in an event. Return the data to send, or None to send nothing."""
        message, interceptor, number = _decoded(data), self._site.interceptor, talk.client.info.number
        if not isinstance(message, dict):
            return data
        request = talk.request
        if "method" in message:
            return await interceptor.sent(
                number, data, talk.send_to_server, None if request is None else request["id"]
            )
        if request is None or not _is_answer(message, request):
            return data
        passed = await interceptor.answer(number, request, talk.came, message)
        return data if passed is message else None if passed is None else codec.encode(passed)

    async def _copy(
        self,
        status: int,
        chunks: AsyncIterator[bytes],
        response: web.StreamResponse,
        talk: ForwardedRequest,
        may_keep: Callable[[int], bool],
    ) -> None:
        """Send a body in pieces, and record the messages in it."""
        most, client, interceptor = self._site.rules.max_body_bytes, talk.client, self._site.interceptor
        kind = _kind(response.headers)
        http_note = response_note(status, kind)
        is_stream = kind == STREAM
        framer = EventFramer(most) if is_stream else None
        seen = Seen(MAX_KEPT_BYTES) if is_stream else Seen(most, may_keep)
        note = None if status == 200 else http_note
        try:
            async for piece in chunks:
                part = piece
                if interceptor.is_active and framer is not None and framer.is_between_events:
                    if not await self._intercepted_events(piece, chunks, response, framer, talk):
                        return
                    continue
                if framer is not None:
                    try:
                        await self._record_events(talk, framer.feed(piece), http_note)
                        if b"\n\n" in piece:
                            seen, part = Seen(MAX_KEPT_BYTES), piece.rpartition(b"\n\n")[2]
                    except ValueError:
                        framer = None  # an event is too large, so parsing stops
                seen.add(part)
                await write_pieces(response, (piece,))
        except BaseException:  # the client or the server disconnected
            if not is_stream and seen.size:
                self._record_cut(client, Direction.OUT, seen, note)
            raise
        if is_stream and framer is None:
            seen.start = seen.start[max(0, seen.start.find(b"{")) :]
            seen.end = seen.end.rstrip()
            self._record_cut(client, Direction.OUT, seen, http_note)
        elif not is_stream and seen.size > seen.most:
            self._record_cut(client, Direction.OUT, seen, note)
        elif not is_stream and (seen.size or status >= 400):
            await self._record_relayed(talk, bytes(seen.start), note)

    async def _sent(self, request: web.BaseRequest, client: PassedClient) -> AsyncIterator[bytes]:
        """Yield a body in pieces without storing it. The body is recorded when it has ended or broken off."""
        seen = Seen(MAX_KEPT_BYTES)
        try:
            async for piece in body_pieces(request):
                seen.add(piece)
                yield piece
        finally:
            self._record_cut(client, Direction.IN, seen, head_of(request).http_note)

    def _record_cut(
        self, client: PassedClient, direction: Direction, seen: Seen, note: HttpNote | None
    ) -> None:
        start, end = unreadable(beginning(bytes(seen.start), MAX_KEPT_BYTES)), unreadable(seen.end)
        self._site.recorder.frame(client.info.number, direction, start, False, note, size=seen.size, end=end)

    def _record(self, talk: ForwardedRequest, data: bytes, http_note: HttpNote | None) -> None:
        self._record_message(talk, data, http_note, _decoded(data))

    async def _record_events(
        self, talk: ForwardedRequest, events: Iterable[Event], http_note: HttpNote | None
    ) -> None:
        """Record the messages of a stream, including those that are not parsed because the client left."""
        waiting = deque(events)
        try:
            while waiting:
                await self._record_relayed(talk, waiting.popleft().data, http_note)
        finally:
            for event in waiting:
                self._record_unparsed(talk, event.data, http_note)

    async def _record_relayed(self, talk: ForwardedRequest, data: bytes, http_note: HttpNote | None) -> None:
        """Record a message of the server. A large message is parsed on a worker thread."""
        message, read = _decoded(data), None
        if message is None and len(data) > QUICK_BYTES:
            try:
                read = await asyncio.to_thread(read_frame, data, is_line=talk.has_lines)
            except asyncio.CancelledError:  # the client has disconnected
                self._record_unparsed(talk, data, http_note)
                raise
        self._record_message(talk, data, http_note, message, read)

    def _record_unparsed(self, talk: ForwardedRequest, data: bytes, http_note: HttpNote | None) -> None:
        self._site.recorder.frame(talk.client.info.number, Direction.OUT, unreadable(data), False, http_note)

    def _record_message(
        self,
        talk: ForwardedRequest,
        data: bytes,
        http_note: HttpNote | None,
        message: Any,
        read: ReadFrame | None = None,
    ) -> None:
        client = talk.client
        is_json = message is not None
        if not is_json or (talk.has_lines and b"\n" in data):
            message = self._remark(client, read or read_frame(data, is_line=talk.has_lines))
        if talk.followed is not None:
            talk.followed.handle_server_message(message)
        if isinstance(message, dict) and "method" not in message and is_id(identifier := message.get("id")):
            client.note_answer(identifier, is_failure(message))
        shown = data if is_json else unreadable(data)
        self._site.recorder.frame(client.info.number, Direction.OUT, shown, is_json, http_note)

    def _end_unanswered(self, client: PassedClient, request: Id, *, is_gone: bool) -> None:
        """Record that a request got no response, unless it was answered."""
        if request in client.awaited:
            client.awaited.discard(request)
            why = "the client left before the response" if is_gone else "the server sent no response"
            silence = Remark(RemarkKind.NO_ANSWER, why, is_fault=True)
            self._site.recorder.remark(RecordedRemark(client.info.number, request, time.time(), silence))

    def _record_unclaimed(self, client: PassedClient, data: bytes) -> None:
        is_json = _decoded(data) is not None
        shown = data if is_json else unreadable(data)
        self._site.recorder.frame(client.info.number, Direction.OUT, shown, is_json)

    def _remark(self, client: PassedClient, read: ReadFrame) -> Any:
        """Record the errors in a message. Return the message as far as it can be read."""
        given = read.value.get("id") if isinstance(read.value, dict) else read.id
        for remark in (*read.remarks, *filter(None, (read.fault,))):
            about = given if is_id(given) else None
            self._site.recorder.remark(RecordedRemark(client.info.number, about, time.time(), remark))
        return read.value

    def _note_session(self, head: RequestHead, client: PassedClient, answer: ForwardedAnswer) -> None:
        """Note that a session has begun or ended."""
        begun = next((value for name, value in answer.headers if name.lower() == SESSION_HEADER.lower()), "")
        if begun and head.session is None:
            self.clients.begin_session(client, begun)
        elif head.session and (
            answer.status == 404 or (head.method == "DELETE" and 200 <= answer.status < 300)
        ):
            self.clients.end(client)


def is_failure(message: dict[str, Any]) -> bool:
    """Return True if a message is an error, or the result of a tool that failed."""
    result = message.get("result")
    return "error" in message or (isinstance(result, dict) and result.get("isError") is True)


async def _counted(chunks: AsyncIterator[bytes], connection: HttpConnection) -> AsyncIterator[bytes]:
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


async def _resumed(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece


async def _end_session(passed: PassThrough, session: str) -> None:
    with suppress(CallError):
        async with passed.ask("DELETE", {SESSION_HEADER: session}, b""):
            pass


def _kind(headers: Mapping[str, str]) -> str:
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _is_request(message: Any) -> bool:
    return isinstance(message, dict) and is_id(message.get("id")) and "method" in message


def _is_answer(message: Any, request: dict[str, Any] | None) -> bool:
    """Return True if a message answers a request."""
    is_response = isinstance(message, dict) and "method" not in message
    return is_response and request is not None and message.get("id") == request["id"]


def _decoded(data: bytes) -> Any:
    """Return the JSON value of a body, or None if it is not JSON."""
    try:
        return codec.decode(data)
    except ProtocolError:
        return None
