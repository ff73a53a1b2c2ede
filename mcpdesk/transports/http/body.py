"""The body of a request: refused when too large or compressed, before any of it is read where that can be."""

from __future__ import annotations

from aiohttp import web

from mcpdesk.protocol.jsonrpc import invalid
from mcpdesk.transports.http.answers import Refused, plain_error, rpc_error
from mcpdesk.transports.http.connection import Connection
from mcpdesk.transports.http.repeated import Repeated

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def arrived_body(request: web.BaseRequest, limit: int) -> bytes | None:
    """The body when all of it is there and not too large; None: it has to be awaited or refused."""
    if type(request) is Repeated:
        return request.body if len(request.body) <= limit else None
    content = request.content
    if not content.is_eof() or content.exception() is not None or content.total_bytes > limit:
        return None
    return content.read_nowait()


async def read_body(request: web.BaseRequest, limit: int) -> bytes:
    """The whole body.

    Raises: Refused for one over `limit` bytes (413), compressed (415), cut off (400), too slow (408), or too
    much beside those of all other requests (503).
    """
    size = request.content_length
    if size is not None and size > limit:
        raise _too_large(size, limit)
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding != "identity":
        # A few kilobytes may unfold to gigabytes, and the capture would not hold what was sent.
        answer = plain_error(415, f"Content-Encoding {coding[:80]!r} is not taken: send the body as it is")
        answer.force_close()
        raise Refused(answer)
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(CONTINUE)
    body = bytearray()
    try:
        await _receive(request, limit, body)
    except (TimeoutError, ConnectionError) as error:
        # The stream keeps its error, the error its traceback, and that all that was received.
        error.__traceback__ = None
        body.clear()
        is_slow = isinstance(error, TimeoutError)
        answer = plain_error(408, str(error)) if is_slow else plain_error(400, "the body broke off")
        answer.force_close()
        raise Refused(answer) from None
    return bytes(body)


async def _receive(request: web.BaseRequest, limit: int, body: bytearray) -> None:
    connection = request.protocol
    assert isinstance(connection, Connection)
    while piece := await request.content.readany():
        body += piece
        if len(body) > limit:
            raise _too_large(None, limit)
        if not connection.holding.take(len(piece)):
            raise _too_many(connection.holding.most)


def _too_many(most: int) -> Refused:
    told = f"requests of more than {most} bytes are being received or answered (max_bodies_bytes)"
    answer = rpc_error(503, invalid(told))
    answer.force_close()
    return Refused(answer)


def _too_large(size: int | None, limit: int) -> Refused:
    said = f"a body of {size} bytes" if size is not None else "the body"
    answer = rpc_error(413, invalid(f"{said} exceeds the limit of {limit} bytes (max_body_bytes)"))
    answer.force_close()
    return Refused(answer)
