"""TCP connections of one HTTP listener, with limits that aiohttp does not have.

Each `HttpConnection` wraps the protocol object of `aiohttp.web.Server` and forwards every callback to it.
aiohttp does the parsing, keep-alive, pipelining and writing. This module rejects requests that arrive too
slowly, limits the number of connections, disconnects clients that do not read their answers, and ends the
calls of lost connections.

aiohttp's `handler_cancellation` is off, because calls in revisions with a handshake continue without their
client.

A dialogue is the conversation of one caller with one server. A connection has dialogues for requests without
a session.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
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
"""Seconds between two checks of all connections. A client may exceed a time limit by up to this time."""
QUIET_S = 2.0
"""Seconds without data from the client after which a process that stops may close the connection."""
BODY_BYTES_PER_S = 16 << 10
"""Minimum speed of a body. Each received piece extends the deadline by its size divided by this speed."""
UNREAD_S = 60.0
"""Seconds within which a client must read at least a part of its unread answers."""
PRESSED_UNREAD_S = 10.0
"""Replaces `UNREAD_S` while other answers wait for memory."""
LINGER_S = 10.0
"""Seconds within which a client must send the rest of a body that was answered before it was complete."""
MAX_IDLE_DIALOGUES = 64
"""If a connection has this many dialogues, idle dialogues are closed before another one begins."""
MAX_ORPHANED_DIALOGUES = 1_000
"""Maximum number of dialogues that continue without a connection. The oldest are ended first."""
SPARE_FILES = 128
"""Number of open files that are reserved for purposes other than connections."""
SHUTDOWN_S = 0.05
"""Seconds at shutdown within which cancelled handlers must end, and then clients must read their answers."""
MAX_LINE_BYTES = 8190
"""Maximum size in bytes of the request line or of one header."""
MAX_HEADERS = 128
END_OF_HEAD = b"\r\n\r\n"

log = logging.getLogger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class BodyBudget:
    """Total size of the request bodies in memory, for all clients. `limit` returns the maximum in bytes."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self.held_bytes = 0
        self.limit = limit


class HttpConnection(asyncio.Protocol):
    """Connection of one client: aiohttp's protocol with further limits.

    Stateless requests end with the connection (source: MCP basic/transports/streamable-http). In revisions
    with a handshake, calls without a session continue, although no client can receive their answers (source:
    MCP basic/transports of 2025-11-25).
    """

    def __init__(self, pool: HttpConnections, protocol: web.RequestHandler) -> None:
        self.dialogues: dict[tuple[str, str, str], HostedDialogue] = {}
        """Dialogues without a session, by endpoint, revision and caller."""
        self.last_used = 0.0
        """Loop time when the last answer ended, or when the connection was opened."""
        self.is_write_paused = False
        """True if the write buffer is full because the client does not read."""
        self.reserved = 0
        """Size in bytes of the large answer that is being encoded or written."""
        self.body_since: float | None = None
        """Loop time when a handler began to wait for a request body, or None if no handler waits."""
        self._pool = pool
        self._protocol = protocol
        self.loop = pool.loop
        self._transport: asyncio.Transport | None = None
        self._is_admitted = False
        self.on_lost: Callable[[], None] | None = None
        """Function that is called when the connection is lost, or None."""
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._held_bytes = 0
        """Size in bytes of the request body for which memory is reserved."""
        self._request: web.BaseRequest | None = None
        """Request that is being answered."""
        self._body: StreamReader | None = None
        """Body of the latest request."""
        self._head_since: float | None = None
        """Loop time when the connection began to wait for a request head, or None if no head is expected."""
        # The position where a head begins is known only if each earlier request had a Content-Length or no
        # body. Otherwise aiohttp's own limits apply, and aiohttp answers.
        self._expects_head = True
        """True if the next received byte begins a head or belongs to one."""
        self._partial_head = b""
        self._request_size: int | None = 0
        """Size of the latest request in bytes, or None if its size is unknown or requests were pipelined."""
        self._head_size: int | None = 0
        """Size of the head of the current request in bytes, or None if it is unknown."""
        self._received = 0
        """Number of bytes since the beginning of the latest request."""
        self._filter: Callable[[bytes], bytes] | None = None
        """Function that received data passes through, or None."""
        self._lowest_unread = 0
        """Lowest number of unread bytes since the client last kept up."""
        self._latest_read = 0.0
        """Loop time of the check when this number last fell."""
        self._reserved_at = 0.0

    # Used by handlers

    @property
    def is_lost(self) -> bool:
        """True if the client has disconnected or is being disconnected."""
        return self._transport is None or self._transport.is_closing()

    @property
    def request_timeout_s(self) -> float:
        """Seconds within which a request must arrive."""
        return self._pool.rules().request_timeout_s

    @property
    def body_limit(self) -> int:
        """Maximum size in bytes of all request bodies together."""
        return self._pool.budget.limit()

    @property
    def has_early_data(self) -> bool:
        """True if the client has sent more than the head of the current request. False if unknown."""
        return self._head_size is not None and self._received > self._head_size

    def set_filter(self, function: Callable[[bytes], bytes] | None) -> None:
        """Pass received data through `function`, which returns the bytes for aiohttp. None removes it."""
        self._filter = function

    def hold(self, size: int) -> bool:
        """Reserve memory for a request body until the request is answered.

        Return False if all bodies together would be too large.
        """
        budget = self._pool.budget
        if budget.held_bytes + size > budget.limit():
            return False
        budget.held_bytes += size
        self._held_bytes += size
        return True

    async def reserve(self, size: int) -> None:
        """Wait until memory for an answer of `size` bytes is available. Raises: AnswerRefused.

        The memory counts as used until the request is answered.
        """
        if not self.is_lost:
            await UNREAD.reserve(size, self._reserve)

    def try_to_reserve(self, size: int) -> bool:
        """Reserve memory for an answer. Return False if no memory is available."""
        if not UNREAD.has_room(size):
            return False
        self._reserve(size)
        return True

    def give_back(self, size: int) -> None:
        """Release reserved memory for bytes that the client has read."""
        if self.reserved:
            self.reserved = max(0, self.reserved - size)
            if self.reserved or self.is_write_paused:
                UNREAD.wake()
            else:
                UNREAD.remove(self)

    def _reserve(self, size: int) -> None:
        if self._transport is None:
            return  # the connection was lost during the wait
        if not self.reserved:
            self._reserved_at = self.loop.time()
        self.reserved += size
        UNREAD.add(self)

    async def drain(self) -> None:
        """Wait until the client has read enough. Raises: ConnectionResetError if the client has disconnected.

        Several tasks may wait. With aiohttp's own drain, cancelling one task would cancel all of them.
        """
        while self.is_write_paused and self._transport is not None:
            waiter = self.loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter
        if self._transport is None:
            raise ConnectionResetError("the client disconnected")

    def dialogue(
        self, endpoint: Endpoint, revision: str, peer: Callable[[], str], caller: Principal = OPEN
    ) -> HostedDialogue | None:
        """Return the dialogue of a caller with a server, for requests without a session.

        `revision` is a revision with a handshake, or empty. Return None if the server does not support it.
        """
        key = (endpoint.key, revision, caller.identity)
        dialogue = self.dialogues.get(key)
        if dialogue is None:
            name = peer()
            dialogue = endpoint.open("http", name, None, caller)
            if revision and not dialogue.assume_revision(revision, name):
                dialogue.close("unsupported revision")
                return None
            self._close_idle_dialogues()
            self.dialogues[key] = dialogue
        return dialogue

    def _close_idle_dialogues(self) -> None:
        """Close idle dialogues if there are too many, such as those of all callers behind one proxy."""
        if len(self.dialogues) >= MAX_IDLE_DIALOGUES:
            for key, dialogue in list(self.dialogues.items()):
                if dialogue.is_idle:
                    del self.dialogues[key]
                    dialogue.close("another caller used this connection")

    def close(self) -> None:
        """Disconnect the client when all written data has been sent."""
        self._protocol.force_close()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Disconnect the client at once. Unsent data is lost."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the client, or reject it if there are too many connections."""
        self._transport = cast(asyncio.Transport, transport)
        self.last_used = self._head_since = self.loop.time()
        refusal = self._pool.admit(self, self._protocol)
        if refusal:
            self._refuse(503, refusal)
            return
        self._is_admitted = True
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Forward received data to aiohttp, unless the request head is too large."""
        if not self._is_admitted:
            return
        if self._head_since is None and self._request is None and (self._body is None or self._body.is_eof()):
            self._head_since = self.loop.time()
        if self._expects_head:
            refusal = self._check_head(data)
            if refusal:
                self._refuse(431, refusal)
                return
        else:
            self._received += len(data)
        self._protocol.data_received(data if self._filter is None else self._filter(data))

    def eof_received(self) -> None:
        """Forward the end of the client's data. The event loop then closes the connection."""
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Count the unread data, because the client does not read fast enough."""
        self.is_write_paused = True
        self._protocol.pause_writing()
        UNREAD.add(self)
        UNREAD.check()

    def resume_writing(self) -> None:
        """Resume writing, because the client has read enough."""
        self.is_write_paused = False
        self._lowest_unread = 0
        if self.reserved:
            UNREAD.progressed(self)
        else:
            UNREAD.remove(self)
        self._protocol.resume_writing()
        self._wake_drain_waiters()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Close the dialogues of the client. The pool keeps those whose calls continue without a client."""
        self._transport = None
        if not self._is_admitted:
            return
        self.reserved = 0
        UNREAD.remove(self)
        self._pool.forget(self._protocol)
        self._protocol.connection_lost(exc)
        for dialogue in self.dialogues.values():
            if dialogue.outlives_connection:
                self._pool.add_orphan(dialogue)
            else:
                dialogue.close("the client disconnected")
        self.dialogues.clear()
        if self.on_lost is not None:
            self.on_lost()
        self._wake_drain_waiters()

    def _wake_drain_waiters(self) -> None:
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._drain_waiters.clear()

    # Called by the pool

    @property
    def unread(self) -> int:
        """Number of bytes in memory that the client has not read."""
        if self._transport is None:
            return 0
        return max(self.reserved, self._transport.get_write_buffer_size())

    def give_up(self) -> None:
        """Disconnect a client that does not read its answers, and release the memory of its answers."""
        self.reserved = 0
        self.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request is being answered, and at most a part of the next request head has arrived."""
        return self._request is None and (self._expects_head or self._request_size is None)

    @property
    def is_listening(self) -> bool:
        """True if the client has a WebSocket or a stream open. Such requests have no time limit."""
        request = self._request
        return (
            request is not None
            and request.method == "GET"
            and ("Upgrade" in request.headers or STREAM in request.headers.get("Accept", ""))
        )

    def begin(self, request: web.BaseRequest, body_size: int | None) -> None:
        """Record that the answer to a request begins. `body_size` is None without Content-Length."""
        self._request = request
        self._body = request.content
        self._head_since = None
        self._head_size = self._request_size
        if self._request_size is not None:
            self._request_size = None if body_size is None else self._request_size + body_size

    def end(self) -> None:
        """Record that the answer has ended or is no longer needed."""
        self._request = None
        self.last_used = self.loop.time()
        self._expects_head = self._received == self._request_size
        if not self._expects_head:
            self._request_size = None
        if self._held_bytes:
            self._pool.budget.held_bytes -= self._held_bytes
            self._held_bytes = 0
        self.give_back(self.reserved)

    @property
    def answer_task(self) -> asyncio.Task[None] | None:
        """Task that answers requests. It ends with the last answer of the connection."""
        return None if self._request is None else self._request.task

    def make_room(self, reason: str) -> None:
        """Disconnect this client so that another can connect. If it has begun a request, send `reason`."""
        if self._partial_head or self.body_since is not None:
            self._refuse(503, reason)
        else:
            self.close()

    def check(self, now: float) -> None:
        """Disconnect the client if its request is late or it does not read its answers."""
        wait_start = self._head_since
        if wait_start is not None and self._request is None and now - wait_start > self.request_timeout_s:
            if self._partial_head or not self._expects_head:
                self._refuse(408, late_request_message(self.request_timeout_s))
            else:
                self.close()
        self._check_reading(now)

    def _check_reading(self, now: float) -> None:
        """Disconnect the client if it has read nothing for too long."""
        transport = self._transport
        if transport is None or not (self.is_write_paused or transport.is_closing()):
            self._lowest_unread = 0
            return
        unread = transport.get_write_buffer_size()
        if not self._lowest_unread or unread < self._lowest_unread:
            self._lowest_unread, self._latest_read = unread, now
        elif now - self._latest_read > (min(UNREAD_S, PRESSED_UNREAD_S) if UNREAD.is_pressed else UNREAD_S):
            UNREAD.count_cut("a connection", self.unread)
            transport.abort()
        if self.reserved and UNREAD.is_pressed:
            timeout_s = UNREAD_S + self.reserved / BODY_BYTES_PER_S
            if now - self._reserved_at > timeout_s:
                UNREAD.count_cut("a connection", self.unread, f": not read within {timeout_s:.0f} s")
                transport.abort()

    def _check_head(self, data: bytes) -> str:
        """Add received bytes to the current request head. Return an error if it is too large, else ""."""
        head = self._partial_head + data
        if not self._partial_head and data[:1] in b"\r\n":
            head = data.lstrip(b"\r\n")  # empty lines before a request are allowed
        end = head.find(END_OF_HEAD)
        size = len(head) if end < 0 else end
        if size > MAX_LINE_BYTES and max(map(len, head[:size].split(b"\r\n"))) > MAX_LINE_BYTES:
            return f"a line of the request's head exceeds {MAX_LINE_BYTES} bytes"
        if head.count(b"\r\n", 0, size) > MAX_HEADERS:
            return f"the request has more than {MAX_HEADERS} headers"
        if end < 0:
            self._partial_head = head
        else:
            self._partial_head = b""
            self._expects_head = False
            self._request_size, self._received = end + len(END_OF_HEAD), len(head)
        return ""

    def _refuse(self, status: int, reason: str) -> None:
        """Send an error for an incomplete request, and disconnect the client."""
        if self._transport is not None:
            body = plain_error(status, reason).body
            assert isinstance(body, bytes)
            phrase = HTTPStatus(status).phrase
            fields = "".join(f"{name}: {value}\r\n" for name, value in JSON_HEADERS.items())
            head = f"HTTP/1.1 {status} {phrase}\r\n{fields}Connection: close\r\n"
            self._transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.close()


class HttpConnections:
    """All connections of one listener: aiohttp's server with further limits.

    `rules` returns the current rules. `dialect_paths` are the paths where clients use a dialect.
    """

    def __init__(
        self, handler: Handler, rules: Callable[[], Rules], dialect_paths: Collection[str] = ()
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.rules = rules
        self.budget = BodyBudget(lambda: rules().max_bodies_bytes)
        self.accepted = 0
        """Number of connections accepted so far."""
        self._handler = handler
        self._heads = RequestHeads(dialect_paths)
        self._server = web.Server(
            self._answer,
            access_log=None,
            auto_decompress=False,
            logger=_AIOHTTP_LOG,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=LINGER_S,
        )
        self._open: dict[web.RequestHandler, HttpConnection] = {}
        self._all_lost = asyncio.Event()
        """Set when the last connection is lost."""
        self.is_leaving = False
        """True if each connection closes after its next answer, because other processes take over."""
        self._orphans: dict[HostedDialogue, float] = {}
        """Dialogues that continue without a connection, with the Unix time when they lost it."""
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
        """Number of dialogues that continue without a connection."""
        return len(self._orphans)

    @property
    def is_quiet(self) -> bool:
        """True if only streams are open and no client has sent anything for `QUIET_S` seconds."""
        since = self.loop.time() - QUIET_S
        return all(
            each.is_listening or (each.is_idle and each.last_used < since) for each in self._open.values()
        )

    def lost_at(self) -> dict[int, float | None]:
        """Return the Unix times when dialogues lost their connection, by connection number. Thread-safe."""
        return {dialogue.connection: lost for dialogue, lost in list(self._orphans.items())}

    def admit(self, connection: HttpConnection, protocol: web.RequestHandler) -> str:
        """Add a connection. If there are too many connections, close another one.

        Return the reason why the new connection is rejected, or "".
        """
        self.accepted += 1
        if self._timer is None:
            self._timer = self.loop.call_later(SWEEP_S, self._sweep)
        limit = min(self.rules().max_connections, max_open_files() - SPARE_FILES)
        if len(self._open) >= limit:
            connected = [each for each in self._open.values() if not each.is_lost]
            refusal = f"{limit} connections are already open (max_connections)"
            if len(connected) >= limit:
                slowest = _slowest(connected, self.loop.time())
                if slowest is None:
                    return refusal
                slowest.make_room(refusal)
        self._open[protocol] = connection
        self._all_lost.clear()
        return ""

    def forget(self, protocol: web.RequestHandler) -> None:
        """Remove a lost connection."""
        self._open.pop(protocol, None)
        if not self._open:
            self._all_lost.set()

    def add_orphan(self, dialogue: HostedDialogue) -> None:
        """Keep a dialogue without a connection until its calls have ended."""
        self._orphans[dialogue] = time.time()
        if len(self._orphans) > MAX_ORPHANED_DIALOGUES:
            oldest = next(iter(self._orphans))
            del self._orphans[oldest]
            oldest.close("too many calls of disconnected clients")

    def disconnect(self, connection: int) -> bool:
        """Disconnect the client of a dialogue without a session. Return False if the number is unknown."""
        is_found = False
        for http_connection in self.connections:
            if any(dialogue.connection == connection for dialogue in http_connection.dialogues.values()):
                http_connection.close()
                is_found = True
        return is_found

    async def close(self, timeout_s: float) -> None:
        """Disconnect all clients. Handlers have `timeout_s` seconds to end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for dialogue in self._orphans:
            dialogue.close("the server stops")
        self._orphans.clear()
        self._server.pre_shutdown()
        answer_tasks = {each.answer_task for each in self._open.values() if each.answer_task is not None}
        if answer_tasks:
            _, late_tasks = await asyncio.wait(answer_tasks, timeout=timeout_s)
            for answer_task in late_tasks:
                answer_task.cancel()
        # `shutdown` waits for the answers and for aiohttp's own tasks. None of them is running now.
        await self._server.shutdown(SHUTDOWN_S)
        # Give clients a moment to read the written data; slower ones are cut off.
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_S):
                    await self._all_lost.wait()
        for connection in self.connections:
            connection.abort()
        await asyncio.sleep(0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request for aiohttp. If it fails, send an error or break a started answer."""
        connection = self._open.get(request.protocol)
        if connection is None:
            return web.Response(status=400)  # the client has disconnected and gets no response
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
            return _failure_answer(request, connection, error)
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


def late_request_message(timeout_s: float) -> str:
    """Return the error message for a request that arrives too slowly."""
    return f"the request did not arrive within {timeout_s:g} s (request_timeout_s)"


def max_open_files() -> int:
    """Return the maximum number of open files of this process."""
    if sys.platform == "win32":
        return 1 << 30  # on Windows, connections need no open files
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft


def _slowest(connections: Iterable[HttpConnection], now: float) -> HttpConnection | None:
    """Return the connection to close in favour of a new one, or None.

    It is the connection that has been idle longest. If no connection is idle, it is the one that has waited
    longest for a body.
    """
    idle = [each for each in connections if each.is_idle]
    if idle:
        return min(idle, key=lambda each: each.last_used)
    body_waits = [(each.body_since, each) for each in connections if each.body_since is not None]
    oldest_wait, slowest = min(body_waits, key=lambda pair: pair[0], default=(now, None))
    return slowest if now - oldest_wait > SWEEP_S else None


def _failure_answer(
    request: web.BaseRequest, connection: HttpConnection, error: Exception
) -> web.StreamResponse:
    """Return the error response after a handler has failed."""
    if not (isinstance(error, ConnectionError) and connection.is_lost):
        log.error("cannot answer %s %s", request.method, request.path, exc_info=error)
    if request.writer.output_size:
        connection.abort()  # a normal end would make the incomplete answer look complete
    answer = plain_error(500, HTTPStatus.INTERNAL_SERVER_ERROR.phrase)
    answer.force_close()
    return answer


def _is_logged(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_AIOHTTP_LOG = logging.getLogger("mcpdesk.aiohttp")
"""Logger for aiohttp's server. Data that is not HTTP is answered but not logged."""
_AIOHTTP_LOG.addFilter(_is_logged)
