"""Bytes to message and back: the one home of JSON on the wire."""

from __future__ import annotations

from typing import Any

import orjson

from mcpdesk.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject


def decode(data: bytes | memoryview) -> Any:
    """Parse one frame.

    Raises: RemoteProtocolError (-32700) for what is not UTF-8 JSON of at most 1,024 levels.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(ErrorCode.PARSE_ERROR, f"Parse error: {error}") from None


def encode(message: Any) -> bytes:
    """Serialise one message compactly, without any newline.

    The result is copied: what the encoder returns keeps its whole growth buffer alive while it is kept.
    Raises: LocalProtocolError (-32603) for values JSON cannot carry.
    """
    return bytes(memoryview(encode_part(message)))


def encode_part(value: Any) -> bytes:
    """Serialise a value that is put into a frame at once, and so need not be copied.

    Raises: LocalProtocolError (-32603) for values JSON cannot carry.
    """
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise LocalProtocolError(ErrorCode.INTERNAL_ERROR, f"Not expressible as JSON: {error}") from None


def result_frame(identifier: Id, result: bytes) -> bytes:
    """Wrap an encoded result in its response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identifier), result)


def response(identifier: Id, result: JSONObject) -> bytes:
    """Serialise a result response."""
    return encode({"jsonrpc": "2.0", "id": identifier, "result": result})


def error_object(error: ProtocolError) -> JSONObject:
    """The wire form of an error. What JSON cannot carry of it stays behind: an error has to arrive."""
    body: JSONObject = {"code": int(error.code), "message": sendable(error.message)}
    if error.data is not None:
        try:
            encode_part(error.data)
        except LocalProtocolError as unsendable:
            body["message"] += f" (its data is left out: {unsendable.message})"
        else:
            body["data"] = error.data
    return body


def error_response(identifier: Id | None, error: ProtocolError) -> bytes:
    """Serialise an error response; without `id` when the request's could not be read."""
    message: JSONObject = {"jsonrpc": "2.0"}
    if identifier is not None:
        message["id"] = identifier
    return encode(message | {"error": error_object(error)})


def notification(method: str, params: JSONObject | None = None) -> bytes:
    """Serialise a notification."""
    if not params:
        return b'{"jsonrpc":"2.0","method":%b}' % orjson.dumps(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (orjson.dumps(method), encode_part(params))


def request(identifier: Id, method: str, params: JSONObject) -> bytes:
    """Serialise a request."""
    return encode({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})


def sendable(text: str) -> str:
    """A text without lone surrogates, which file names that are no UTF-8 bring along."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
