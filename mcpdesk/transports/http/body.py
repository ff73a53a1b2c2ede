"""The body of a request: refused when too large or compressed, before any of it is read where that can be."""

from __future__ import annotations

import asyncio

from aiohttp import web

from mcpdesk.protocol.jsonrpc import invalid
from mcpdesk.transports.http.answers import Refused, plain_error, rpc_error
from mcpdesk.transports.http.connections import BODY_BYTES_PER_S, HttpConnection, connection_of, late

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_body(request: web.BaseRequest, limit: int) -> bytes:
    """Return the whole body.

    Raises: Refused for one over `limit` bytes (413), compressed (415), cut off (400), too slow (408), or too
    much beside those of all other requests (503).
    """
    size = request.content_length
    if size is not None and size > limit:
        raise _too_large(size, limit)
    coding = request.headers.get("Content-Encoding")
    if coding is not None and coding.lower() != "identity":
        # A few kilobytes may unfold to gigabytes, and the capture would not hold what was sent.
        raise _closing(
            plain_error(415, f"Content-Encoding {coding[:80]!r} is not taken: send the body as it is")
        )
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
        request.transport.write(CONTINUE)
    connection, body = connection_of(request), bytearray()
    try:
        if request.content.is_eof():
            await _receive(request, connection, limit, body)
        else:
            await _await(request, connection, limit, body)
    except (TimeoutError, ConnectionError, web.RequestPayloadError) as error:
        # The stream keeps its error, the error its traceback, and that all that was received.
        error.__traceback__ = None
        body.clear()
        is_late = isinstance(error, TimeoutError)
        told = (
            plain_error(408, late(connection.patience_s))
            if is_late
            else plain_error(400, "the body broke off")
        )
        raise _closing(told) from None
    return bytes(body)


async def _await(request: web.BaseRequest, connection: HttpConnection, limit: int, body: bytearray) -> None:
    """Receive a body of which more is to come. Raises: as `_receive`, and TimeoutError."""
    connection.body_since = began = connection.loop.time()
    try:
        async with asyncio.timeout_at(began + connection.patience_s) as patience:
            await _receive(request, connection, limit, body, patience)
    finally:
        connection.body_since = None


async def _receive(
    request: web.BaseRequest,
    connection: HttpConnection,
    limit: int,
    body: bytearray,
    patience: asyncio.Timeout | None = None,
) -> None:
    """Fill `body`; with `patience`, every piece of it gives more time. Raises: Refused, ConnectionError."""
    content = request.content
    while piece := await content.readany():
        body += piece
        if len(body) > limit:
            raise _too_large(None, limit)
        if not connection.hold(len(piece)):
            told = f"requests of more than {connection.body_limit} bytes are being received or answered"
            raise _closing(rpc_error(503, invalid(f"{told} (max_bodies_bytes)")))
        if patience is not None:
            deadline = patience.when()
            assert deadline is not None
            patience.reschedule(deadline + len(piece) / BODY_BYTES_PER_S)


def _too_large(size: int | None, limit: int) -> Refused:
    said = f"a body of {size} bytes" if size is not None else "the body"
    return _closing(rpc_error(413, invalid(f"{said} exceeds the limit of {limit} bytes (max_body_bytes)")))


def _closing(answer: web.Response) -> Refused:
    """A refusal after which the connection ends: the rest of the body is not wanted."""
    answer.force_close()
    return Refused(answer)
