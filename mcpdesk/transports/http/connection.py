"""One TCP connection: aiohttp's protocol object, its sessionless dialogues, and how long it may dawdle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.transports.base import Dialogue, Endpoint
from mcpdesk.transports.http.answers import plain_error
from mcpdesk.transports.http.budget import Budget, Holding
from mcpdesk.transports.http.head import Head
from mcpdesk.transports.http.repeated import Repeated
from mcpdesk.transports.pipe import UNREAD

SLOWEST = 16 << 10
"""Bytes that give a body one second more to arrive in."""
UNREAD_S = 60.0
"""How long a client that was sent too much may read nothing of it."""
MOST_DIALOGUES = 64
"""Of one connection, of those that do nothing now."""

log = logging.getLogger(__name__)


class Connection(RequestHandler):
    """Closing a connection ends what its stateless requests started. Source: WIRE 5.2.

    Sessionless calls of the handshake era go on, though their answers reach nobody: `leave` takes the
    dialogues they belong to. Source: WIRE 4.1.
    """

    __slots__ = (
        "_came",
        "_head",
        "_head_bytes",
        "_least_unread",
        "_leave",
        "_newest",
        "_on_lost",
        "_raw_headers",
        "_read_at",
        "_waits_for",
        "_waits_since",
        "_wire",
        "dialogues",
        "holding",
    )

    def __init__(self, *args: Any, budget: Budget, leave: Callable[[Dialogue], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.holding = Holding(budget)
        """What the body of its request takes, until that is answered."""
        self.dialogues: dict[tuple[str, str, str], Dialogue] = {}
        self._leave = leave
        self._newest: StreamReader = EMPTY_PAYLOAD
        self._head_bytes = 0
        self._came = 0
        self._waits_for: tuple[int, bool] | None = None
        self._waits_since = 0.0
        self._least_unread = 0
        self._read_at = 0.0
        self._raw_headers: Any = None
        self._head: Head | None = None
        self._on_lost: Callable[[], None] | None = None
        self._wire: asyncio.Transport | None = None
        """The base forgets it when it closes, with what was not read yet."""

    def on_lost(self, function: Callable[[], None] | None) -> None:
        """What to run when the peer is gone, while one answer is written; None when that is over."""
        self._on_lost = function

    def head(self, request: web.BaseRequest) -> Head:
        """Request line and headers. A client that keeps its connection repeats them: one value serves all."""
        head, raw = self._head, request.raw_headers
        if raw is not self._raw_headers or head is None:
            if head is None or raw != self._raw_headers:
                head = self._head = Head(request)
            self._raw_headers = raw
        if head.asked != request.raw_path or head.method != request.method:
            head = self._head = Head(request)
        return head

    def dialogue(
        self, endpoint: Endpoint, revision: str, peer: Callable[[], str], caller: Principal = OPEN
    ) -> Dialogue | None:
        """The sessionless dialogue of a caller with a server; `revision` is a handshake one, or empty.

        None when that revision is not one served without a handshake.
        """
        key = (endpoint.key, revision, caller.identity)
        dialogue = self.dialogues.get(key)
        if dialogue is None:
            name = peer()
            dialogue = endpoint.open("http", name, None, caller)
            if revision and not dialogue.adopt(revision, name):
                dialogue.close("unsupported revision")
                return None
            self._make_room()
            self.dialogues[key] = dialogue
        return dialogue

    def _make_room(self) -> None:
        """Forget what nobody uses now: a proxy may bring the requests of many callers by one connection."""
        if len(self.dialogues) >= MOST_DIALOGUES:
            for key, dialogue in [each for each in self.dialogues.items() if each[1].is_idle]:
                del self.dialogues[key]
                dialogue.close("another caller came by this connection")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        UNREAD.add(self)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Parse more of what came, and notice whether it finished a head or went into a body."""
        known, in_body = self._request_count, not self._newest.is_eof()
        super().data_received(data)
        if self._request_count != known:
            self._newest = self._messages[-1][1]
            self._head_bytes = self._came = 0
        elif in_body:
            self._came += len(data)
        else:
            self._head_bytes += len(data)

    @property
    def is_waiting(self) -> bool:
        """Whether the next request has not come, or not entirely, and nothing else is done meanwhile."""
        return self._waiter is not None and not self._messages

    @property
    def used(self) -> float:
        """When its last request was answered, else when it was opened, on a clock of its own."""
        return self._next_keepalive_close_time

    def check(self, now: float, patience_s: float) -> None:
        """Give a client up that lets us wait for the rest of its request, or that reads no answers."""
        awaited = None if self.transport is None else self._awaited()
        if awaited is None or awaited != self._waits_for:
            self._waits_for, self._waits_since = awaited, now
        elif now - self._waits_since > patience_s + self._came / SLOWEST:
            self._give_up(f"the request did not arrive within {patience_s:g} s (request_timeout_s)")
        self._check_reading(now)

    def refuse(self, status: int, reason: str) -> None:
        """Answer what never became a request, and close."""
        if self.transport is not None:
            body = plain_error(status, reason).body
            phrase = HTTPStatus(status).phrase
            head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
            assert isinstance(body, bytes)
            self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no HTTP, or to a mistake of ours. Only the latter is news for the log."""
        if isinstance(exc, ConnectionError) and (self.transport is None or self.transport.is_closing()):
            raise ConnectionError("the client is gone") from exc
        if status >= 500:
            log.error("cannot answer %s %s", request.method, request.path, exc_info=exc)
        if request.writer.output_size:
            raise ConnectionError("an answer has begun already")
        told = (message or "").partition("\n")[0].strip(" :") or HTTPStatus(status).phrase
        if isinstance(exc, LineTooLong):
            status, told = 431, f"a line of the request's head exceeds {self.max_line_size} bytes"
        elif told.startswith("Too many headers"):
            status, told = 431, f"the request has more than {self.max_headers} headers"
        answer = plain_error(status, told[:200])
        answer.force_close()
        return answer

    @property
    def unread(self) -> int:
        """Bytes the transport holds for a client that does not read them."""
        return 0 if self._wire is None else self._wire.get_write_buffer_size()

    def give_up(self) -> None:
        """Close at once, with what was not read."""
        if self._wire is not None:
            self._wire.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        UNREAD.remove(self)
        super().connection_lost(exc)
        for dialogue in self.dialogues.values():
            if dialogue.outlives_connection:
                self._leave(dialogue)
            else:
                dialogue.close("the client disconnected")
        self.dialogues.clear()
        if self._on_lost is not None:
            self._on_lost()

    def _awaited(self) -> tuple[int, bool] | None:
        """What of which request is missing, its body or not; None: nothing that is due."""
        request = self._current_request
        if request is not None:
            is_due = request.content is self._newest and not self._newest.is_eof()
            return (self._request_count, True) if is_due else None
        is_begun = self._head_bytes or not self._request_count
        return (self._request_count, False) if self.is_waiting and is_begun else None

    def _give_up(self, reason: str) -> None:
        self._waits_for = None
        if self._current_request is not None:
            self._newest.set_exception(TimeoutError(reason))
        elif self._head_bytes:
            self.refuse(408, reason)
        else:
            self.force_close()

    def _check_reading(self, now: float) -> None:
        wire = self._wire
        if wire is None or not (self.writing_paused or wire.is_closing()):
            self._least_unread = 0
            return
        unread = wire.get_write_buffer_size()
        if not self._least_unread or unread < self._least_unread:
            self._least_unread, self._read_at = unread, now
        elif now - self._read_at > UNREAD_S:
            log.warning("ended a connection that left %d bytes of answers unread", unread)
            wire.abort()


def head_of(request: web.BaseRequest) -> Head:
    """What the head of a request says."""
    if type(request) is Repeated:
        return request.head
    connection = request.protocol
    assert isinstance(connection, Connection)
    return connection.head(request)


def peer_of(request: web.BaseRequest) -> str:
    """What the client calls itself, or where it is, until it introduces itself."""
    agent = head_of(request).carried.get("User-Agent", "").partition(" ")[0].replace("/", " ")
    return agent[:60] or (request.remote or "unix")
