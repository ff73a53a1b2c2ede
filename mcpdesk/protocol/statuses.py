"""HTTP status of a JSON-RPC error, per era. Source: WIRE 2.5 and 4."""

from __future__ import annotations

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode

_ENVELOPE: dict[int, int] = {
    ErrorCode.PARSE_ERROR: 400,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.HEADER_MISMATCH: 400,
    ErrorCode.UNSUPPORTED_VERSION: 400,
}
_STATELESS: dict[int, int] = _ENVELOPE | {
    ErrorCode.INVALID_PARAMS: 400,
    ErrorCode.MISSING_CAPABILITY: 400,
    ErrorCode.METHOD_NOT_FOUND: 404,
}


def http_status(error: ProtocolError, stateless: bool) -> int:
    """The status an error travels with; handler errors of the handshake era ride in an ordinary 200."""
    table = _STATELESS if stateless else _ENVELOPE
    return table.get(error.code, 200)
