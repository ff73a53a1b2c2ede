"""An answer whose bytes are put together here: status, few headers, a body that is there already.

aiohttp's own answers build a dictionary of headers, look through it and write it out: a third of what a short
call costs. Nothing here depends on which header was given but the length.
"""

from __future__ import annotations

import time
from http import HTTPStatus

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11

ONE_WRITE = 64 << 10
"""Bytes of a body that are copied behind its head, for one write; larger ones are handed over as they are."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Ready(web.StreamResponse):
    """Answers a POST; `body` is JSON, None: there is none."""

    def __init__(self, status: int, body: bytes | None, headers: dict[str, str] | None = None) -> None:
        # The base's is left out: nothing of what it prepares is looked at.
        self._status = status
        self._json = body
        self._more = headers
        self._request: web.BaseRequest | None = None

    def add(self, headers: dict[str, str]) -> None:
        """Say more in its head."""
        self._more = (self._more or {}) | headers

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
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        body = self._json
        if body is None:
            transport.write(self._head(request))
            return
        is_usual = self._status == 200 and self._more is None and self._keep_alive
        if is_usual and request.version == HttpVersion11:
            head = b"%b%d\r\n\r\n" % (_usual.head(), len(body))
        else:
            head = self._head(request)
        if len(body) <= ONE_WRITE:
            transport.write(head + body)
        else:
            transport.writelines((head, body))

    def _head(self, request: web.BaseRequest) -> bytes:
        body = self._json
        lines = [f"HTTP/1.1 {self._status} {_PHRASES[self._status]}"]
        if body is not None:
            lines.append("Content-Type: application/json")
        lines += [f"Content-Length: {len(body or b'')}"] if self._status != HTTPStatus.NO_CONTENT else []
        lines += _stamp()
        lines += [f"{name}: {value}" for name, value in (self._more or {}).items()]
        if bool(self._keep_alive) is not (request.version >= HttpVersion11):
            # Said only where it is not what the version takes for granted.
            lines.append(f"Connection: {'keep-alive' if self._keep_alive else 'close'}")
        return "\r\n".join([*lines, "\r\n"]).encode()


class _Usual:
    """The beginning of the usual answer's head, made once a second for the date in it."""

    def __init__(self) -> None:
        self._second = 0
        self._head = b""

    def head(self) -> bytes:
        """Everything up to the length."""
        second = int(time.time())
        if second != self._second:
            lines = ("HTTP/1.1 200 OK", "Content-Type: application/json", *_stamp(), "Content-Length: ")
            self._second, self._head = second, "\r\n".join(lines).encode()
        return self._head


def _stamp() -> list[str]:
    return [f"Date: {rfc822_formatted_time()}", f"Server: {SERVER_SOFTWARE}"]


_usual = _Usual()
