"""An answer whose bytes are put together here: status, few headers, a body that is there already.

aiohttp's own answers build a dictionary of headers, look through it and write it out: a third of what a short
call costs. Nothing here depends on which header was given but the length.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

from mcpdesk.transports.pipe import UNREAD

ONE_WRITE = 64 << 10
"""Bytes of a body that leave with its head. The client reads them while the rest is handed over."""

_STAYS, _CLOSES = b"Connection: keep-alive\r\n", b"Connection: close\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Ready(web.StreamResponse):
    """Answers a request; `body` is JSON, None: there is none.

    `after` runs once it was written, or could not be: what the client need not wait for.
    """

    def __init__(
        self,
        status: int,
        body: bytes | None,
        headers: dict[str, str] | None = None,
        after: Callable[[], object] | None = None,
    ) -> None:
        # The base's is left out: nothing of what it prepares is looked at.
        self._status = status
        self._json = body
        self._more = headers
        self._after = after
        self._request: web.BaseRequest | None = None

    def add(self, headers: dict[str, str]) -> None:
        """Say more in its head."""
        self._more = (self._more or {}) | headers

    @property
    def is_small(self) -> bool:
        """Whether all of it leaves in one write."""
        return self._json is None or len(self._json) <= ONE_WRITE

    @property
    def said(self) -> bytes | None:
        """Its body."""
        return self._json

    async def prepare(self, request: web.BaseRequest) -> None:
        """Learn whom to answer."""
        self._request = request

    async def write_eof(self, data: bytes = b"") -> None:
        """Send everything and wait for a client that does not keep up. Raises: as `send`."""
        assert self._request is not None
        self.send(self._request)
        await self._request.writer.drain()

    def send(self, request: web.BaseRequest) -> None:
        """Send everything. Raises: ConnectionError when the peer is gone."""
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        is_usual = self._keep_alive is (request.version >= HttpVersion11)
        # Said only where it is not what the version takes for granted.
        self.write_to(request.transport, b"" if is_usual else _STAYS if self._keep_alive else _CLOSES)

    def write_to(self, transport: asyncio.Transport | None, more: bytes = b"") -> None:
        """Write everything, and conclude; `more` belongs to its head. Raises: as `send`."""
        try:
            self.hand_over(transport, more)
        finally:
            self.conclude()

    def conclude(self) -> None:
        """Do, once, what the client need not wait for."""
        if (after := self._after) is not None:
            self._after = None
            after()

    def hand_over(self, transport: asyncio.Transport | None, more: bytes = b"") -> None:
        """Write everything; whoever calls it concludes. Raises: as `send`."""
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        body = self._json
        if self._more is not None:
            more += "".join([f"{name}: {value}\r\n" for name, value in self._more.items()]).encode()
        if body is None:
            transport.write(b"%b%b\r\n" % (_heads.empty(self._status), more))
            return
        head = b"%b%d\r\n%b\r\n" % (_heads.begun(self._status), len(body), more)
        transport.write(head + body[:ONE_WRITE])
        if len(body) > ONE_WRITE:
            # A view: of bytes, the transport would copy whatever the system does not take at once.
            transport.write(memoryview(body)[ONE_WRITE:])
            UNREAD.check()


class _Heads:
    """Beginnings of answers' heads, made once a second for the date in them."""

    def __init__(self) -> None:
        self._second = 0
        self._begun: dict[int, bytes] = {}
        self._empty: dict[int, bytes] = {}

    def begun(self, status: int) -> bytes:
        """That of an answer with a body, up to its length."""
        if (second := int(time.time())) != self._second:
            self._renew(second)
        head = self._begun.get(status)
        if head is None:
            head = self._begun[status] = (
                _lines(status, "Content-Type: application/json") + b"Content-Length: "
            )
        return head

    def empty(self, status: int) -> bytes:
        """That of an answer without one, up to what else there is to say."""
        if (second := int(time.time())) != self._second:
            self._renew(second)
        head = self._empty.get(status)
        if head is None:
            length = () if status == HTTPStatus.NO_CONTENT else ("Content-Length: 0",)
            head = self._empty[status] = _lines(status, *length)
        return head

    def _renew(self, second: int) -> None:
        self._second = second
        self._begun.clear()
        self._empty.clear()


def _lines(status: int, *more: str) -> bytes:
    dated = (f"Date: {rfc822_formatted_time()}", f"Server: {SERVER_SOFTWARE}")
    return "\r\n".join([f"HTTP/1.1 {status} {_PHRASES[status]}", *more, *dated, ""]).encode()


_heads = _Heads()
