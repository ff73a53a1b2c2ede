"""HTTP responses: JSON bodies, errors, and the media types that a client accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from mcpdesk.errors import DeskError, ProtocolError, RemoteProtocolError, UnknownMode
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, Id
from mcpdesk.recorder.record import HttpNote

JSON = "application/json"
PIECE_BYTES = 1 << 20
"""Number of bytes of a large body that are written at a time."""
STREAM = "text/event-stream"
REASON_KEY = web.ResponseKey("why", str)
"""Reason for a refusal, for the log only."""
IS_RECORDED = web.ResponseKey("recorded", bool)
"""Marks a response that is in the recorded traffic and therefore not logged."""
SANDBOX_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of all responses except the dashboard's page. Browsers neither run nor embed these responses."""
JSON_HEADERS = {"Content-Type": JSON, **SANDBOX_HEADERS}
RETRY_AFTER = {"Retry-After": "1"}
"""Headers that ask a client to try again after some seconds."""


class AcceptedTypes(NamedTuple):
    """Media types of responses that a client accepts."""

    json: bool
    stream: bool


@lru_cache(maxsize=256)
def accepted(header: str) -> AcceptedTypes:
    """Parse an Accept header. An empty one accepts everything."""
    if not header.strip():
        return AcceptedTypes(True, True)
    media_types = {part.partition(";")[0].strip().lower() for part in header.split(",")}
    accepts_everything = "*/*" in media_types
    return AcceptedTypes(
        accepts_everything or not media_types.isdisjoint({"application/json", "application/*"}),
        accepts_everything or not media_types.isdisjoint({"text/event-stream", "text/*"}),
    )


def response_note(status: int, kind: str = JSON, headers: dict[str, str] | None = None) -> HttpNote:
    """Return the status line and headers of an answer, to be recorded.

    Only headers that MCP uses are recorded.
    """
    if not headers:
        return _cached_note(status, kind)
    return HttpNote(_line(status), (("Content-Type", kind), *headers.items()))


@lru_cache(maxsize=64)
def _cached_note(status: int, kind: str) -> HttpNote:
    """Return the same object for equal answers. The recorder then writes it only once."""
    return HttpNote(_line(status), (("Content-Type", kind),))


@lru_cache(maxsize=64)
def _line(status: int) -> str:
    return f"HTTP/1.1 {status_text(status)}"


def status_text(status: int) -> str:
    """Return a status with its phrase if it has one, such as `404 Not Found`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def json_answer(status: int, body: bytes | None, headers: dict[str, str] | None = None) -> web.Response:
    """Return a response with encoded JSON, or without a body."""
    if body is None:
        return web.Response(status=status, headers=headers)
    merged = JSON_HEADERS if headers is None else JSON_HEADERS | headers
    return web.Response(status=status, body=body, headers=merged)


async def large_answer(
    request: web.BaseRequest, status: int, body: bytes, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Write a large body and return the finished response. The connection counts the memory."""
    response = web.StreamResponse(status=status, headers=headers)
    response.content_length = len(body)
    await response.prepare(request)
    if request.method != "HEAD":
        await write_pieces(response, (body,))
    await response.write_eof()
    return response


async def write_pieces(response: web.StreamResponse, pieces: Iterable[bytes]) -> None:
    """Write a large body in small pieces. Each is written after the client has read most of the previous one.

    If it were written at once, the unread rest would be copied.
    """
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(piece), PIECE_BYTES):
            await response.write(view[start : start + PIECE_BYTES])


def plain_error(
    status: int, message: str, headers: dict[str, str] | None = None, **members: Any
) -> web.Response:
    """Return an HTTP error with a readable JSON body."""
    return json_answer(status, codec.encode({"error": message, **members}), headers)


def content_type_error(content_type: str) -> web.Response:
    """Return the error for a body that is not declared as JSON.

    Other types are rejected, because pages of other sites can send them.
    """
    actual_type = f"not {content_type[:80]!r}" if content_type else "but the request has none"
    return plain_error(415, f"Content-Type must be application/json, {actual_type}")


def method_error(request: web.BaseRequest, allowed: Iterable[str]) -> web.Response:
    """Return the error for a method that is not allowed. It lists the allowed ones."""
    return plain_error(
        405,
        f"Method {request.method} is not allowed; use {', '.join(allowed)}",
        {"Allow": ", ".join(allowed)},
    )


def rpc_error(status: int, error: ProtocolError, identifier: Id | None = None) -> web.Response:
    """Return a JSON-RPC error response."""
    return json_answer(status, codec.error_response(identifier, error))


def retry_later(error: DeskError, identifier: Id | None = None) -> web.Response:
    """Return the response for a request that needs stored state or a process which does not respond."""
    answer = rpc_error(503, ProtocolError(ErrorCode.INTERNAL_ERROR, str(error)), identifier)
    answer.headers.update(RETRY_AFTER)
    return answer


def mode_error(error: UnknownMode, is_message: bool) -> web.Response:
    """Return the error for an unknown mode. It lists the known ones. `is_message` asks for JSON-RPC."""
    modes = list(error.server_modes)
    if is_message:
        return rpc_error(404, RemoteProtocolError(ErrorCode.INVALID_PARAMS, error.message, {"modes": modes}))
    return plain_error(404, error.message, modes=modes)


def unavailable_error(text: str, is_message: bool) -> web.Response:
    """Return the error for a server that is not served now. `is_message` asks for JSON-RPC."""
    if is_message:
        return rpc_error(503, ProtocolError(ErrorCode.INTERNAL_ERROR, text))
    return plain_error(503, text)


class RequestRefused(Exception):
    """A request is rejected. `answer` is the response for the client."""

    def __init__(self, answer: web.Response) -> None:
        super().__init__(answer.status)
        self.answer = answer
