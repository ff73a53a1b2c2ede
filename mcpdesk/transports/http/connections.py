"""TCP connections of one HTTP listener, with limits that aiohttp does not have.

Each `HttpConnection` wraps the protocol that `aiohttp.web.Server` creates and forwards every callback to it.
Parsing, keep-alive, pipelining and writing are aiohttp's. This module rejects requests that arrive too
slowly, limits the number of connections, disconnects clients that do not read their answers, and ends the
calls of lost connections.

aiohttp's `handler_cancellation` stays off: calls of the handshake era continue without their client, and this
protocol is notified of a lost connection anyway.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from aiohttp import StreamReader, web
from aiohttp.http import HttpProcessingError

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.request_head import HEAD, RequestHeads
from mcpdesk.transports.http.responses import JSON_HEADERS, STREAM, plain_error
from mcpdesk.transports.unread_answers import UNREAD

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.transports.http.site import Endpoint

SWEEP_S = 1.0
"""Interval of the checks. Every limit in seconds may be exceeded by that much."""
QUIET_S = 2.0
"""Time without data from a client after which a replica that ends may close its connection."""
BODY_BYTES_PER_S = 16 << 10
"""Bytes of a body that extend its deadline by one second."""
UNREAD_S = 60.0
"""Time limit for a client to read part of its answers."""
PRESSED_UNREAD_S = 10.0
"""The same while other answers wait for room."""
LINGER_S = 10.0
"""Time a client may continue to send a body that was answered early, and read the answer."""
MAX_IDLE_DIALOGUES = 64
"""Number of dialogues per connection above which idle ones are closed."""
MAX_ORPHANS = 1_000
"""Maximum number of dialogues that continue without a connection; the oldest are ended first."""
SPARE_FILES = 128
"""Open files reserved for purposes other than connections."""
AT_LAST_S = 0.05
"""Time for aiohttp to wait for cancelled handlers, and for clients to read their answers, at shutdown."""
MAX_LINE = 8190
"""Maximum bytes of the request line or of one header."""
MAX_HEADERS = 128
END_OF_HEAD = b"\r\n\r\n"

log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class BodyBudget:
    """Bytes of request bodies held for all clients of a listener. `limit` returns the maximum."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self.held = 0
        self.limit = limit


class HttpConnection(asyncio.Protocol):
    """Connection of one client: aiohttp's protocol with additional limits.

    Stateless requests end with the connection (source: MCP basic/transports/streamable-http). Sessionless
    calls of the handshake era continue, although no client receives their answers (source: MCP
    basic/transports of 2025-11-25).
    """

    def __init__(self, pool: HttpConnections, inner: web.RequestHandler) -> None:
        self.dialogues: dict[tuple[str, str, str], HostedDialogue] = {}
        """Sessionless dialogues, by endpoint, revision and caller."""
        self.last_used = 0.0
        """Loop time of the last answer, or of the opening of the connection."""
        self.is_write_paused = False
        """True if the write buffer of the transport is full because the client does not read."""
        self.reserved = 0
        """Bytes of the large answer that is being encoded or written."""
        self.body_since: float | None = None
        """Loop time since which a handler has waited for a request body, or None."""
        self._pool = pool
        self._inner = inner
        self.loop = pool.loop
        self._transport: asyncio.Transport | None = None
        self._is_admitted = False
        self._on_lost: Callable[[], None] | None = None
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._held = 0
        self._request: web.BaseRequest | None = None
        """Request that is being answered."""
        self._body: StreamReader | None = None
        """Body of the latest request."""
        self._head_since: float | None = None
        """Loop time since which a request head has been expected."""
        # The start of a head is known as long as every request had a Content-Length or no body. In all other
        # cases the limits of aiohttp's parser apply; it answers by itself.
        self._is_between = True
        """True if the next byte belongs to a head."""
        self._partial_head = b""
        self._request_size: int | None = 0
        """Size of the latest request in bytes. None after the first request of unknown size or that was
        pipelined."""
        self._head_size: int | None = 0
        """Size of the head of the current request in bytes, or None if it is unknown."""
        self._received = 0
        """Bytes received since the first byte of the latest request."""
        self._inspect: Callable[[bytes], bytes] | None = None
        self._least_unread = 0
        self._read_at = 0.0
        self._reserved_at = 0.0

    # Used by handlers

    @property
    def is_lost(self) -> bool:
        """True if the client has disconnected or is being disconnected."""
        return self._transport is None or self._transport.is_closing()

    @property
    def patience_s(self) -> float:
        """Time limit for the arrival of a request."""
        return self._pool.rules().request_timeout_s

    @property
    def body_limit(self) -> int:
        """Maximum bytes of request bodies of all clients together."""
        return self._pool.budget.limit()

    @property
    def has_early_data(self) -> bool:
        """True if the client has sent more than the head of the current request, as far as is known."""
        return self._head_size is not None and self._received > self._head_size

    def inspect(self, function: Callable[[bytes], bytes] | None) -> None:
        """Pass data through a function that returns the part for aiohttp; None ends that."""
        self._inspect = function

    def hold(self, size: int) -> bool:
        """Reserve bytes for a body until it is answered.

        Return False if all bodies together would be too large.
        """
        budget = self._pool.budget
        if budget.held + size > budget.limit():
            return False
        budget.held += size
        self._held += size
        return True

    async def reserve(self, size: int) -> None:
        """Wait until `size` bytes of an answer may be held. They count until the request is answered.

        Raises: AnswerRefused.
        """
        if not self.is_lost:
            await UNREAD.reserve(size, self._reserve)

    def try_to_reserve(self, size: int) -> bool:
        """Reserve bytes for an answer; return False without room."""
        if not UNREAD.has_room(size):
            return False
        self._reserve(size)
        return True

    def give_back(self, size: int) -> None:
        """Release reserved bytes that the client has read."""
        if self.reserved:
            self.reserved = max(0, self.reserved - size)
            if self.reserved or self.is_write_paused:
                UNREAD.wake()
            else:
                UNREAD.remove(self)

    def _reserve(self, size: int) -> None:
        if self._transport is None:
            return  # the connection was lost while the answer waited for room, and nothing is written
        if not self.reserved:
            self._reserved_at = self.loop.time()
        self.reserved += size
        UNREAD.add(self)

    async def drain(self) -> None:
        """Wait until the client has read enough. Raises: ConnectionResetError if it has disconnected.

        Several tasks may wait. aiohttp's own drain does not allow that: cancelling one waiter cancels all.
        """
        while self.is_write_paused and self._transport is not None:
            waiter = self.loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter
        if self._transport is None:
            raise ConnectionResetError("the client disconnected")

    def on_lost(self, function: Callable[[], None] | None) -> None:
        """Set the function to call when the connection is lost, or None for no function."""
        self._on_lost = function

    def dialogue(
        self, endpoint: Endpoint, revision: str, peer: Callable[[], str], caller: Principal = OPEN
    ) -> HostedDialogue | None:
        """Return the sessionless dialogue of a caller with a server. `revision` is a handshake revision, or
        empty.

        None if that revision cannot be served without a handshake.
        """
        key = (endpoint.key, revision, caller.identity)
        dialogue = self.dialogues.get(key)
        if dialogue is None:
            name = peer()
            dialogue = endpoint.open("http", name, None, caller)
            if revision and not dialogue.adopt(revision, name):
                dialogue.close("unsupported revision")
                return None
            self._close_idle_dialogues()
            self.dialogues[key] = dialogue
        return dialogue

    def _close_idle_dialogues(self) -> None:
        """Close idle dialogues. A proxy may send the requests of many callers over one connection."""
        if len(self.dialogues) >= MAX_IDLE_DIALOGUES:
            for key, dialogue in [each for each in self.dialogues.items() if each[1].is_idle]:
                del self.dialogues[key]
                dialogue.close("another caller used this connection")

    def close(self) -> None:
        """Disconnect the client after the written data was sent."""
        self._inner.force_close()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Disconnect the client at once and discard unsent data."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the client, or reject it if there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        self.last_used = self._head_since = self.loop.time()
        refusal = self._pool.admit(self, self._inner)
        if refusal:
            self._refuse(503, refusal)
            return
        self._is_admitted = True
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Forward received data to aiohttp unless the head is too large."""
        if not self._is_admitted:
            return
        if self._head_since is None and self._request is None and (self._body is None or self._body.is_eof()):
            self._head_since = self.loop.time()
        if self._is_between:
            refusal = self._check_head(data)
            if refusal:
                self._refuse(431, refusal)
                return
        else:
            self._received += len(data)
        self._inner.data_received(data if self._inspect is None else self._inspect(data))

    def eof_received(self) -> None:
        """Forward the end of the client's data. The event loop then closes the connection."""
        self._inner.eof_received()

    def pause_writing(self) -> None:
        """Note that the client does not read fast enough."""
        self.is_write_paused = True
        self._inner.pause_writing()
        UNREAD.add(self)
        UNREAD.check()

    def resume_writing(self) -> None:
        """Note that the client has read enough."""
        self.is_write_paused = False
        self._least_unread = 0
        if self.reserved:
            UNREAD.progressed(self)
        else:
            UNREAD.remove(self)
        self._inner.resume_writing()
        self._wake_drained()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the calls of the client, or let them continue without it."""
        self._transport = None
        if not self._is_admitted:
            return
        self.reserved = 0
        UNREAD.remove(self)
        self._pool.forget(self._inner)
        self._inner.connection_lost(exc)
        for dialogue in self.dialogues.values():
            if dialogue.outlives_connection:
                self._pool.keep_orphan(dialogue)
            else:
                dialogue.close("the client disconnected")
        self.dialogues.clear()
        if self._on_lost is not None:
            self._on_lost()
        self._wake_drained()

    def _wake_drained(self) -> None:
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._drain_waiters.clear()

    # Called by the pool

    @property
    def unread(self) -> int:
        """Bytes held because the client has not read them."""
        if self._transport is None:
            return 0
        return max(self.reserved, self._transport.get_write_buffer_size())

    def give_up(self) -> None:
        """Disconnect a client that leaves too much unread."""
        self.reserved = 0
        self.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered and the next one has not arrived completely."""
        return self._request is None and (self._is_between or self._request_size is None)

    @property
    def is_listening(self) -> bool:
        """True if the client has a WebSocket or a stream open, which has no time limit."""
        request = self._request
        return (
            request is not None
            and request.method == "GET"
            and ("Upgrade" in request.headers or STREAM in request.headers.get("Accept", ""))
        )

    def begin(self, request: web.BaseRequest, body_size: int | None) -> None:
        """Note that a request is being answered. `body_size` is None for a body without Content-Length."""
        self._request = request
        self._body = request.content
        self._head_since = None
        self._head_size = self._request_size
        if self._request_size is not None:
            self._request_size = None if body_size is None else self._request_size + body_size

    def end(self) -> None:
        """Note that the request was answered, or that its answer is no longer needed."""
        self._request = None
        self.last_used = self.loop.time()
        self._is_between = self._received == self._request_size
        if not self._is_between:
            self._request_size = None
        if self._held:
            self._pool.budget.held -= self._held
            self._held = 0
        self.give_back(self.reserved)

    @property
    def answering_aio(self) -> asyncio.Task[None] | None:
        """Task that answers the current request. It ends with the last answer of the connection."""
        return None if self._request is None else self._request.task

    def make_room(self, reason: str) -> None:
        """Disconnect the client in favour of another one. `reason` is sent if it had begun a request."""
        if self._partial_head or self.body_since is not None:
            self._refuse(503, reason)
        else:
            self.close()

    def check(self, now: float) -> None:
        """Disconnect a client whose request is late, or that reads no answers."""
        since = self._head_since
        if since is not None and self._request is None and now - since > self.patience_s:
            if self._partial_head or not self._is_between:
                self._refuse(408, late(self.patience_s))
            else:
                self.close()
        self._check_reading(now)

    def _check_reading(self, now: float) -> None:
        wire = self._transport
        if wire is None or not (self.is_write_paused or wire.is_closing()):
            self._least_unread = 0
            return
        unread = wire.get_write_buffer_size()
        if not self._least_unread or unread < self._least_unread:
            self._least_unread, self._read_at = unread, now
        elif now - self._read_at > (min(UNREAD_S, PRESSED_UNREAD_S) if UNREAD.is_pressed else UNREAD_S):
            UNREAD.note_cut("a connection", self.unread)
            wire.abort()
        if self.reserved and UNREAD.is_pressed:
            patience_s = UNREAD_S + self.reserved / BODY_BYTES_PER_S
            if now - self._reserved_at > patience_s:
                UNREAD.note_cut("a connection", self.unread, f": not read within {patience_s:.0f} s")
                wire.abort()

    def _check_head(self, data: bytes) -> str:
        """Track a head as it arrives. Return an error message if it is too large, else an empty string."""
        head = self._partial_head + data
        if not self._partial_head and data[:1] in b"\r\n":
            head = data.lstrip(b"\r\n")  # empty lines before a request are ignored
        end = head.find(END_OF_HEAD)
        size = len(head) if end < 0 else end
        if size > MAX_LINE and max(map(len, head[:size].split(b"\r\n"))) > MAX_LINE:
            return f"a line of the request's head exceeds {MAX_LINE} bytes"
        if head.count(b"\r\n", 0, size) > MAX_HEADERS:
            return f"the request has more than {MAX_HEADERS} headers"
        if end < 0:
            self._partial_head = head
        else:
            self._partial_head = b""
            self._is_between = False
            self._request_size, self._received = end + len(END_OF_HEAD), len(head)
        return ""

    def _refuse(self, status: int, reason: str) -> None:
        """Send an error for incomplete request data, and disconnect."""
        if self._transport is not None:
            body = plain_error(status, reason).body
            assert isinstance(body, bytes)
            phrase = HTTPStatus(status).phrase
            fields = "".join(f"{name}: {value}\r\n" for name, value in JSON_HEADERS.items())
            head = f"HTTP/1.1 {status} {phrase}\r\n{fields}Connection: close\r\n"
            self._transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.close()


class HttpConnections:
    """All connections of one listener: aiohttp's server with additional limits.

    `rules` returns the current rules.
    """

    def __init__(self, handler: Handler, rules: Callable[[], Rules]) -> None:
        self.loop = asyncio.get_running_loop()
        self.rules = rules
        self.budget = BodyBudget(lambda: rules().max_bodies_bytes)
        self.accepted = 0
        """Number of connections accepted so far."""
        self._handler = handler
        self._heads = RequestHeads()
        self._server = web.Server(
            self._answer,
            access_log=None,
            auto_decompress=False,
            logger=_AIOHTTP_LOG,
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            max_headers=MAX_HEADERS,
            lingering_time=LINGER_S,
        )
        self._open: dict[web.RequestHandler, HttpConnection] = {}
        self._all_lost = asyncio.Event()
        """Set when the last open connection is lost."""
        self.is_leaving = False
        """True if every answer closes its connection, because other replicas continue the work."""
        self._orphans: dict[HostedDialogue, float] = {}
        """Dialogues that continue without a connection, and the Unix time at which they lost it."""
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> HttpConnection:
        """Return the protocol of one connection, for `loop.create_server`."""
        return HttpConnection(self, self._server())

    def __len__(self) -> int:
        return len(self._open)

    @property
    def connections(self) -> list[HttpConnection]:
        """Open connections."""
        return list(self._open.values())

    @property
    def requests(self) -> int:
        """Number of requests so far."""
        return self._server.requests_count

    @property
    def orphans(self) -> int:
        """Number of dialogues that continue without their connection."""
        return len(self._orphans)

    @property
    def is_quiet(self) -> bool:
        """True if only streams are being answered and no client has sent anything recently."""
        since = self.loop.time() - QUIET_S
        return all(
            each.is_listening or (each.is_idle and each.last_used < since) for each in self._open.values()
        )

    def lost_at(self) -> dict[int, float | None]:
        """Unix times at which dialogues lost their connection, by connection number in the record.

        Thread-safe.
        """
        return {dialogue.connection: lost for dialogue, lost in list(self._orphans.items())}

    def admit(self, newcomer: HttpConnection, inner: web.RequestHandler) -> str:
        """Add a connection, closing another one if necessary.

        Return the reason for a rejection, or an empty string.
        """
        self.accepted += 1
        if self._timer is None:
            self._timer = self.loop.call_later(SWEEP_S, self._sweep)
        limit = min(self.rules().max_connections, max_open_files() - SPARE_FILES)
        if len(self._open) >= limit:
            here = [each for each in self._open.values() if not each.is_lost]
            refusal = f"{limit} connections are already open (max_connections)"
            if len(here) >= limit:
                slowest = _slowest(here, self.loop.time())
                if slowest is None:
                    return refusal
                slowest.make_room(refusal)
        self._open[inner] = newcomer
        self._all_lost.clear()
        return ""

    def forget(self, inner: web.RequestHandler) -> None:
        """Remove a lost connection."""
        self._open.pop(inner, None)
        if not self._open:
            self._all_lost.set()

    def keep_orphan(self, dialogue: HostedDialogue) -> None:
        """Keep a dialogue that lost its connection until its calls have ended."""
        self._orphans[dialogue] = time.time()
        if len(self._orphans) > MAX_ORPHANS:
            oldest = next(iter(self._orphans))
            del self._orphans[oldest]
            oldest.close("too many calls of disconnected clients")

    def hang_up(self, connection: int) -> bool:
        """Disconnect the client of a sessionless dialogue; return False if the number is unknown."""
        found = [
            each
            for each in self._open.values()
            if any(dialogue.connection == connection for dialogue in each.dialogues.values())
        ]
        for each in found:
            each.close()
        return bool(found)

    async def close(self, patience_s: float) -> None:
        """Disconnect all clients. Handlers may run for `patience_s` more seconds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for dialogue in self._orphans:
            dialogue.close("the server stops")
        self._orphans.clear()
        self._server.pre_shutdown()
        answering = {each.answering_aio for each in self._open.values() if each.answering_aio is not None}
        if answering:
            _, late_ones = await asyncio.wait(answering, timeout=patience_s)
            for answering_aio in late_ones:
                answering_aio.cancel()
        # aiohttp waits twice, for the answer and for its own task; neither is running now.
        await self._server.shutdown(AT_LAST_S)
        # Give clients a moment to read the written data; slower ones are cut off.
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(AT_LAST_S):
                    await self._all_lost.wait()
        for connection in self.connections:
            connection.abort()
        await asyncio.sleep(0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request for aiohttp. An exception becomes an error response, or aborts a started one."""
        connection = self._open.get(request.protocol)
        if connection is None:
            return web.Response(status=400)  # the client has disconnected: this response is not sent
        head = self._heads.find(request)
        request[HEAD], request[CONNECTION] = head, connection
        connection.begin(request, head.body_size)
        try:
            if connection.is_write_paused:
                await connection.drain()
            answer = await self._handler(request)
            if self.is_leaving:
                answer.force_close()
            return answer
        except Exception as error:
            return _failed(request, connection, error)
        finally:
            connection.end()

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in self.connections:
            connection.check(now)
        for dialogue in [each for each in self._orphans if each.is_idle]:
            del self._orphans[dialogue]
            dialogue.close("the client disconnected")
        is_needed = self._open or self._orphans
        self._timer = self.loop.call_later(SWEEP_S, self._sweep) if is_needed else None


CONNECTION = web.RequestKey("connection", HttpConnection)


def connection_of(request: web.BaseRequest) -> HttpConnection:
    """Return the connection on which a request arrived."""
    return request[CONNECTION]


def late(patience_s: float) -> str:
    """Return the error message for a request that did not arrive in time."""
    return f"the request did not arrive within {patience_s:g} s (request_timeout_s)"


def max_open_files() -> int:
    """Maximum number of open files of this process."""
    if sys.platform == "win32":
        return 1 << 30  # connections are no files there
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def _slowest(connections: Iterable[HttpConnection], now: float) -> HttpConnection | None:
    """Return the connection to close for a new one, or None.

    It is the one that has been idle longest, else the one that has waited longest for a body.
    """
    idle = [each for each in connections if each.is_idle]
    if idle:
        return min(idle, key=lambda each: each.last_used)
    waiting = [(each.body_since, each) for each in connections if each.body_since is not None]
    since, slowest = min(waiting, key=lambda pair: pair[0], default=(now, None))
    return slowest if now - since > SWEEP_S else None


def _failed(request: web.BaseRequest, connection: HttpConnection, error: Exception) -> web.StreamResponse:
    """Return the error response for a request whose handler failed."""
    if not (isinstance(error, ConnectionError) and connection.is_lost):
        log.error("cannot answer %s %s", request.method, request.path, exc_info=error)
    if request.writer.output_size:
        connection.abort()  # an answer has begun: the client must not take it for a complete one
    answer = plain_error(500, HTTPStatus.INTERNAL_SERVER_ERROR.phrase)
    answer.force_close()
    return answer


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_AIOHTTP_LOG = logging.getLogger("mcpdesk.aiohttp")
"""Logger of aiohttp's server. Data that is not valid HTTP is answered and not logged."""
_AIOHTTP_LOG.addFilter(_is_news)
