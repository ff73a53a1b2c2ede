"""An open file as an answer: whole or a range of it, under a name that leads nowhere. Source: RFC 9110."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError

from mcpdesk.transports.base import Parcel
from mcpdesk.transports.http.answers import plain_error
from mcpdesk.transports.http.head import head_of

PIECE = 256 << 10
_RANGE = re.compile(r"bytes\s*+=\s*+(\d{0,18}+)\s*+-\s*+(\d{0,18}+)\s*+", re.IGNORECASE | re.ASCII)
_UNQUOTED = re.compile(r"[^\w.,+() -]", re.ASCII)


class Span(NamedTuple):
    """From a byte on, so many."""

    start: int
    length: int


class Source:
    """An open file, read on other threads by one at a time.

    A read cannot be called back: `close` leaves the descriptor to one that is under way, lest its number be
    another file's when the read comes to it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = Lock()
        self._is_read = self._is_closed = False

    def read(self, length: int, position: int) -> bytes:
        """At most so many bytes from there on; nothing once it is closed. Blocks."""
        with self._lock:
            if self._is_closed:
                return b""
            self._is_read = True
        try:
            return os.pread(self._descriptor, length, position)
        finally:
            with self._lock:
                self._is_read = False
                if self._is_closed:
                    os.close(self._descriptor)

    def close(self) -> None:
        """Close it now, or when the read that is under way is over. To be called once."""
        with self._lock:
            self._is_closed = True
            if not self._is_read:
                os.close(self._descriptor)


async def send(
    request: web.BaseRequest, parcel: Parcel, more: Mapping[str, str] = MappingProxyType({})
) -> web.StreamResponse:
    """Send it, with `more` headers than it has by itself, and close its descriptor."""
    source = Source(parcel.descriptor)
    try:
        return await _answer(request, parcel, source, more)
    finally:
        source.close()


async def _answer(
    request: web.BaseRequest, parcel: Parcel, source: Source, more: Mapping[str, str]
) -> web.StreamResponse:
    tag = f'"{parcel.tag}"'
    headers = {
        "Content-Type": parcel.media_type,
        "Content-Disposition": disposition(parcel.name),
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        **more,
    }
    if tag in [
        each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")
    ]:
        return web.Response(status=304, headers={"ETag": tag})
    span = Span(0, parcel.size)
    status = 200
    if request.headers.get("If-Range", tag) == tag:
        asked = wanted(request.headers.get("Range", ""), parcel.size)
        if asked is not None and not asked.length:
            refused = f"The file has {parcel.size} bytes: none of them lies in that range"
            return plain_error(416, refused, {"Content-Range": f"bytes */{parcel.size}"})
        if asked is not None:
            span, status = asked, 206
            headers["Content-Range"] = f"bytes {span.start}-{span.start + span.length - 1}/{parcel.size}"
    response = web.StreamResponse(status=status, headers=headers | head_of(request).page_headers)
    response.content_length = span.length
    await response.prepare(request)
    if request.method != "HEAD":
        await _copy(response, source, span)
    return response


def disposition(name: str) -> str:
    """The header that makes a browser save it: the name in ASCII, and as it is where that differs."""
    plain = _UNQUOTED.sub("_", name) or "file"
    told = f'attachment; filename="{plain}"'
    return told if plain == name else f"{told}; filename*=UTF-8''{quote(name, safe='')}"


def wanted(header: str, size: int) -> Span | None:
    """The range asked for, of no length when there is nothing of it; None: the whole.

    What is not understood, and several ranges at once, are answered by the whole.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        return Span(size - length, length)
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if last and int(last) < start:
        return None
    return Span(start, max(0, end - start + 1))


async def _copy(response: web.StreamResponse, source: Source, span: Span) -> None:
    position, end = span.start, span.start + span.length
    try:
        while position < end:
            piece = await asyncio.to_thread(source.read, min(PIECE, end - position), position)
            if not piece:
                raise ConnectionError("the file became shorter while it was sent")
            position += len(piece)
            await response.write(piece)
        await response.write_eof()
    except ClientConnectionResetError as error:
        raise ConnectionError("the client is gone") from error
