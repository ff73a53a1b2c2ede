"""Reading of request bodies. If possible, an unacceptable body is rejected before it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiohttp import StreamReader, web

from mcpdesk.protocol.jsonrpc import invalid
from mcpdesk.transports.http.connections import (
    BODY_BYTES_PER_S,
    HttpConnection,
    connection_of,
    late_request_message,
)
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import RequestRefused, plain_error, rpc_error

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_body(request: web.BaseRequest, limit: int) -> bytes:
    """Return the complete body.

    Raises: RequestRefused if the body has more than `limit` bytes (413), is compressed (415), incomplete
    (400) or too slow (408), or if all bodies together are too large (503).
    """
    head, content, connection = head_of(request), request.content, connection_of(request)
    if head.body_size is not None and head.body_size > limit:
        raise _too_large(head.body_size, limit)
    begin_body(request)
    try:
        if content.is_eof():
            body = content.read_nowait()
            _reserve_memory(connection, len(body), len(body), limit)
            return body
        return await _receive(content, connection, limit)
    except TimeoutError:
        raise _closing_error(plain_error(408, late_request_message(connection.request_timeout_s))) from None
    except (ConnectionError, web.RequestPayloadError):
        raise _closing_error(plain_error(400, "the body ended early")) from None


def begin_body(request: web.BaseRequest) -> None:
    """Ask the client to send the body. Raises: RequestRefused (415) if the body is compressed."""
    if not head_of(request).is_plain:
        coding = request.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            # A few kilobytes can expand to gigabytes, and the capture must contain the bytes that were sent.
            text = f"Content-Encoding {coding[:80]!r} is not supported: send the body without encoding"
            raise _closing_error(plain_error(415, text))
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(CONTINUE)


async def body_pieces(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Yield the body in pieces, as fast as the caller takes them. Each piece extends the deadline.

    Raises: TimeoutError, ConnectionError.
    """
    connection = connection_of(request)
    remaining_s, now = connection.request_timeout_s, connection.loop.time
    while True:
        start_time = now()
        async with asyncio.timeout(remaining_s):
            piece = await request.content.readany()
        if not piece:
            return
        remaining_s += len(piece) / BODY_BYTES_PER_S - (now() - start_time)
        yield piece


async def _receive(content: StreamReader, connection: HttpConnection, limit: int) -> bytes:
    """Receive a body. Each piece extends the deadline.

    Raises: RequestRefused, TimeoutError, ConnectionError.
    """
    connection.body_since = deadline = connection.loop.time()
    deadline += connection.request_timeout_s
    body = bytearray()
    try:
        async with asyncio.timeout_at(deadline) as timeout:
            while piece := await content.readany():
                body += piece
                _reserve_memory(connection, len(piece), len(body), limit)
                deadline += len(piece) / BODY_BYTES_PER_S
                timeout.reschedule(deadline)
        return bytes(body)
    except (TimeoutError, ConnectionError, web.RequestPayloadError) as error:
        # Free the received data: the stream refers to its error, the error to its traceback, and the
        # traceback to the data.
        error.__traceback__ = None
        raise
    finally:
        body.clear()
        connection.body_since = None


def _reserve_memory(connection: HttpConnection, size: int, total: int, limit: int) -> None:
    """Reserve memory for `size` bytes of a body. Raises: RequestRefused."""
    if total > limit:
        raise _too_large(None, limit)
    if not connection.hold(size):
        text = f"requests of more than {connection.body_limit} bytes are being received or answered"
        raise _closing_error(rpc_error(503, invalid(f"{text} (max_bodies_bytes)")))


def _too_large(size: int | None, limit: int) -> RequestRefused:
    body_text = f"a body of {size} bytes" if size is not None else "the body"
    return _closing_error(
        rpc_error(413, invalid(f"{body_text} exceeds the limit of {limit} bytes (max_body_bytes)"))
    )


def _closing_error(answer: web.Response) -> RequestRefused:
    """Return an error that closes the connection, because the body was not read completely."""
    answer.force_close()
    return RequestRefused(answer)
