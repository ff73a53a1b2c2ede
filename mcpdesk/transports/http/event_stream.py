"""Answers as server-sent events. An answer becomes a stream when its first message is sent.

During long calls, clients receive keep-alive comments. A client that can resume a stream also receives an
event id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError

from mcpdesk.protocol.framing import event
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import JSON_HEADERS, SANDBOX_HEADERS, write_pieces
from mcpdesk.transports.unread_answers import UNREAD

STREAM_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
    **SANDBOX_HEADERS,
}
KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_S = 15.0
"""Seconds between two keep-alive comments."""
HIGH_WATER = 256 << 10
"""Number of queued bytes above which a handler must wait before it sends more."""
MAX_BURST_BYTES = 64 << 10
"""Maximum number of bytes that may be sent in one turn of the event loop. They are written together."""
MAX_TURN_S = 0.002
"""Seconds for which a sender may run before it must let the event loop write."""
UNREAD_LIMIT = 64 << 20
"""Number of queued bytes above which the connection is closed, because the peer does not read."""

log = logging.getLogger(__name__)


def events(messages: Sequence[bytes]) -> bytes:
    """Encode messages as server-sent events of type `message`."""
    return b"event: message\ndata: %b\n\n" % b"\n\nevent: message\ndata: ".join(messages)


async def wait(end_event: asyncio.Event, seconds: float) -> None:
    """Wait until `end_event` is set, but at most `seconds` seconds."""
    try:
        async with asyncio.timeout(seconds):
            await end_event.wait()
    except TimeoutError:
        pass


async def break_off(request: web.BaseRequest, response: web.StreamResponse, piece: bytes) -> None:
    """Write the beginning of an answer, then close the connection."""
    with suppress(ConnectionError, ClientConnectionResetError):
        await response.prepare(request)
        await response.write(piece)
    if request.transport is not None:
        request.transport.close()


class EventStream:
    """Queue of events for one client. Events of one loop turn are written together.

    If the peer disconnects, the stream ends without an error.
    """

    def __init__(self, request: web.BaseRequest, headers: dict[str, str] | None = None) -> None:
        head = head_of(request)
        self.response = web.StreamResponse(headers=STREAM_HEADERS | (headers or {}) | head.page_headers)
        self._is_broken = False
        self._request = request
        self._pieces: list[bytes] = []
        self._queued_bytes = 0
        self._turn_start = 0.0
        """Monotonic time when the event loop last had an opportunity to write."""
        self._writer_task: asyncio.Task[None] | None = None
        self._is_prepared = False

    @property
    def is_broken(self) -> bool:
        """True if the peer has disconnected."""
        return self._is_broken or self._request.transport is None

    @property
    def queued(self) -> int:
        """Number of bytes that wait to be written."""
        return self._queued_bytes

    def put(self, piece: bytes) -> None:
        """Queue one piece. If too much is unread, the peer is disconnected."""
        if self._queued_bytes > UNREAD_LIMIT:
            self._abort()
        if self._is_broken:
            return
        self._pieces.append(piece)
        self._queued_bytes += len(piece)
        if self._writer_task is None:
            self._writer_task = asyncio.get_running_loop().create_task(self._write())
        if self._queued_bytes > HIGH_WATER:
            UNREAD.add(self)
            UNREAD.check()

    async def drain(self) -> None:
        """Wait while too much is queued."""
        if self._queued_bytes > HIGH_WATER and self._writer_task is not None:
            await asyncio.shield(self._writer_task)
        elif self._queued_bytes >= MAX_BURST_BYTES or monotonic() - self._turn_start > MAX_TURN_S:
            await asyncio.sleep(0)
            self._turn_start = monotonic()

    async def finish(self) -> web.StreamResponse:
        """Write the queued data and end the stream."""
        while self._writer_task is not None:
            await self._writer_task
        if not self.is_broken:
            try:
                await self._prepare()
                await self.response.write_eof()
            except (ConnectionError, ClientConnectionResetError):
                self._is_broken = True
        return self.response

    async def break_off(self, piece: bytes) -> None:
        """Write the queued data and `piece`, the beginning of an event. Then close the connection."""
        while self._writer_task is not None:
            await self._writer_task
        await break_off(self._request, self.response, piece)
        self._is_broken = True

    async def _write(self) -> None:
        """Write the queued pieces until none is left or the peer disconnects."""
        try:
            await self._prepare()
            while self._pieces:
                pieces, self._pieces = self._pieces, []
                size, self._queued_bytes = self._queued_bytes, 0
                if size < LARGE_ANSWER_BYTES:
                    await self.response.write(b"".join(pieces))
                else:
                    await write_pieces(self.response, pieces)
        except (ConnectionError, ClientConnectionResetError):
            self._is_broken = True
            self._pieces.clear()
            self._queued_bytes = 0
        finally:
            self._writer_task = None
            UNREAD.remove(self)

    @property
    def unread(self) -> int:
        """Number of bytes that wait to be written, without those that the connection has reserved."""
        return max(0, self._queued_bytes - connection_of(self._request).reserved)

    def give_up(self) -> None:
        """End the stream and its connection at once."""
        self._abort()

    def _abort(self) -> None:
        UNREAD.count_cut("a stream", self._queued_bytes)
        self._is_broken = True
        self._pieces.clear()
        self._queued_bytes = 0
        if self._request.transport is not None:
            self._request.transport.abort()

    async def _prepare(self) -> None:
        if not self._is_prepared:
            self._is_prepared = True
            await self.response.prepare(self._request)


class PostOutlet:
    """Outlet for messages about one POST request. The first message turns the answer into a stream.

    Messages of one loop turn are written together. `record` is called with these messages and `connection`.
    """

    must_drain = False
    """True if the sender must call `drain` before it sends more."""
    is_prompt = False
    """True to begin a stream after `STREAM_AFTER_S` seconds even without a message."""
    retry_s = 0.0
    """Seconds after which the client was asked to reconnect, or 0 if it was not asked."""
    # The values below are class attributes, because most calls end without a message.
    _turn_messages: list[bytes] | None = None
    _remaining_bytes = 0
    """Number of bytes that may still be sent before the sender must wait."""
    _turn_end = 0.0
    """Monotonic time until which the sender may run before it must let the event loop write."""

    def __init__(
        self,
        request: web.BaseRequest,
        may_stream: bool,
        record: Callable[[int, Direction, Sequence[bytes]], int],
        connection: int,
    ) -> None:
        self.stream: EventStream | None = None
        self.headers: dict[str, str] = {}
        self.request = request
        self._may_stream = may_stream
        self._record = record
        self._connection = connection

    @property
    def is_resumable(self) -> bool:
        """True if the client has received an event id and can resume the stream."""
        return False

    @property
    def may_send(self) -> bool:
        """True if the client accepts a stream."""
        return self._may_stream

    @property
    def sends_priming_event(self) -> bool:
        """True if the client can resume the stream after it has received an event with only an id."""
        return False

    def send(self, message: bytes) -> None:
        """Queue a message. It is dropped if the client accepts no stream."""
        messages = self._turn_messages
        if messages is None:
            if not self._may_stream:
                return
            messages = self._start_turn()
        messages.append(message)
        self._remaining_bytes -= len(message)
        if self._remaining_bytes <= 0 or monotonic() > self._turn_end:
            self.must_drain = True

    def flush(self) -> None:
        """Record and write the queued messages."""
        messages, self._turn_messages = self._turn_messages, None
        if messages:
            self._record(self._connection, Direction.OUT, messages)
            self._write(messages)

    async def reserve(self, size: int) -> None:
        """Wait until memory for an answer of `size` bytes is available. Raises: AnswerRefused."""
        await connection_of(self.request).reserve(size)

    async def reserve_all(self, size: int) -> None:
        """Wait until memory for an encoded answer is available. A part of the memory may already be reserved.

        Raises: AnswerRefused.
        """
        connection = connection_of(self.request)
        if size > connection.reserved:
            await connection.reserve(size - connection.reserved)

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        self.flush()
        self.must_drain = False
        if self.stream is not None:
            await self.stream.drain()
        self._turn_end = monotonic() + MAX_TURN_S

    def keep_alive(self) -> None:
        """Begin a stream if the client accepts one, and write a comment."""
        if self._may_stream:
            self.flush()
            self.begin().put(KEEP_ALIVE)

    async def close_stream(self, retry_ms: int) -> bool:
        """Return False, because only a stream of a session can be resumed."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """Write the first half of the answer, as JSON or as an event, and close the connection."""
        self.flush()
        if self.stream is not None or (self._may_stream and head_of(self.request).wants_stream):
            piece = event(answer)
            await self.begin().break_off(piece[: len(piece) // 2])
        else:
            response = web.StreamResponse(headers=JSON_HEADERS | self.headers)
            response.content_length = len(answer)
            await break_off(self.request, response, answer[: len(answer) // 2])
        return True

    async def conclude(self, body: bytes | None) -> web.StreamResponse:
        """Send the last message, if any, and end the stream."""
        self.flush()
        stream = self.begin()
        if body is not None and len(body) < LARGE_ANSWER_BYTES:
            stream.put(event(body))
        elif body is not None:
            for piece in (b"event: message\ndata: ", body, b"\n\n"):  # joining these would copy the body
                stream.put(piece)
        return await stream.finish()

    def begin(self) -> EventStream:
        """Return the stream. Start the stream if necessary."""
        if self.stream is None:
            self.stream = EventStream(self.request, self.headers)
        return self.stream

    def _start_turn(self) -> list[bytes]:
        """Return the list of messages for this loop turn."""
        self.begin()
        messages: list[bytes] = []
        self._turn_messages = messages
        self._remaining_bytes = MAX_BURST_BYTES
        asyncio.get_running_loop().call_soon(self.flush)
        return messages

    def _write(self, messages: Sequence[bytes]) -> None:
        self.begin().put(events(messages))


SWEEP_S = 0.25
"""Seconds between two checks whether a keep-alive comment is due."""
NOT_SCHEDULED = 0.0
STREAM_AFTER_S = 0.4
"""Seconds without a message after which an answer becomes a stream.

This requires that the client can resume a stream, or lists event streams in `Accept`.
"""


class StreamKeepAlive:
    """Timer that sends keep-alive comments for the long calls of one listener."""

    def __init__(self) -> None:
        self._due_times: dict[PostOutlet, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due_times)

    def watch(self, outlet: PostOutlet) -> None:
        """Add the outlet of a call that has begun."""
        self._due_times[outlet] = NOT_SCHEDULED
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def forget(self, outlet: PostOutlet) -> None:
        """Remove the outlet of a call that has ended."""
        self._due_times.pop(outlet, None)

    def _sweep(self) -> None:
        """Send the comments that are due, and schedule the next check."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for outlet, due in list(self._due_times.items()):
            if due == NOT_SCHEDULED:
                begins_early = outlet.is_prompt or outlet.sends_priming_event
                self._due_times[outlet] = now + (STREAM_AFTER_S if begins_early else KEEP_ALIVE_S)
            elif due <= now:
                outlet.keep_alive()
                self._due_times[outlet] = now + KEEP_ALIVE_S
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._due_times else None
