"""JSON-RPC 2.0 types: ids, error codes with their HTTP status, and kinds of messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any, TypeAlias, TypeGuard

from mcpdesk.errors import AnswerRefused, ProtocolError, RemoteProtocolError

Id: TypeAlias = str | int
JSONObject: TypeAlias = dict[str, Any]

MAX_ID = 2**63 - 1


class ErrorCode(IntEnum):
    """Error codes that we send. The last three belong to the stateless era. Source: MCP basic."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    UNAUTHORIZED = -32001
    """Our own code: a token is missing or invalid."""
    FORBIDDEN = -32003
    """Our own code: the token is valid but does not permit the request."""
    HEADER_MISMATCH = -32020
    MISSING_CAPABILITY = -32021
    UNSUPPORTED_VERSION = -32022


class MessageKind(Enum):
    """Kind of a parsed message."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


def is_id(value: object) -> TypeGuard[Id]:
    """Return True for a valid request id: a string or an integer, but not a bool, a fraction or null."""
    if isinstance(value, str):
        return True
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_ID


def classify(message: object) -> MessageKind:
    """Return the kind of a decoded message.

    Raises: RemoteProtocolError (-32600) if it is not a valid message object.
    """
    if not isinstance(message, dict):
        raise invalid("a message must be a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise invalid('"jsonrpc" must be "2.0"')
    if "method" not in message:
        if ("result" in message) == ("error" in message):
            raise invalid('a message needs "method", or exactly one of "result" and "error"')
        return MessageKind.RESPONSE
    if not isinstance(message["method"], str):
        raise invalid('"method" must be a string')
    if "result" in message or "error" in message:
        raise invalid('"method" excludes "result" and "error"')
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        raise invalid('"params" must be an object')
    if "id" not in message:
        return MessageKind.NOTIFICATION
    if not is_id(message["id"]):
        raise invalid('"id" must be a string or an integer of at most 64 bits')
    return MessageKind.REQUEST


def readable_id(message: object) -> Id | None:
    """Return the id to echo in an error about a possibly invalid message, or None if it cannot be read."""
    identifier = message.get("id") if isinstance(message, dict) else None
    return identifier if is_id(identifier) else None


def invalid(reason: str) -> RemoteProtocolError:
    """Return the error for an invalid message."""
    return RemoteProtocolError(ErrorCode.INVALID_REQUEST, f"Invalid request: {reason}")


def invalid_params(reason: str, data: Any = None) -> RemoteProtocolError:
    """Return the error for a valid message with invalid parameters."""
    return RemoteProtocolError(ErrorCode.INVALID_PARAMS, reason, data)


_HANDSHAKE_STATUS: dict[int, int] = {
    ErrorCode.PARSE_ERROR: 400,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.HEADER_MISMATCH: 400,
    ErrorCode.UNSUPPORTED_VERSION: 400,
}
_STATELESS_STATUS: dict[int, int] = _HANDSHAKE_STATUS | {
    ErrorCode.INVALID_PARAMS: 400,
    ErrorCode.MISSING_CAPABILITY: 400,
    ErrorCode.METHOD_NOT_FOUND: 404,
}


def http_status(error: ProtocolError, stateless: bool) -> int:
    """Return the HTTP status of an error.

    In the handshake era, errors about a method or its parameters and errors of handlers have the status 200.
    """
    if isinstance(error, AnswerRefused):
        return 503
    table = _STATELESS_STATUS if stateless else _HANDSHAKE_STATUS
    return table.get(error.code, 200)


def params_of(message: JSONObject) -> JSONObject:
    """Return the parameters of a message, or an empty object if they are missing or not an object."""
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def meta_of(message: JSONObject) -> JSONObject:
    """Return the `_meta` of a message, or an empty object if it is missing or not an object."""
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def progress_token(container: Mapping[str, Any]) -> Id | None:
    """Return the progress token in `container`, or None if it is missing or invalid. `container` is the
    `_meta` of a request, or the parameters of a progress notification.
    """
    token = container.get("progressToken")
    return token if is_id(token) else None
