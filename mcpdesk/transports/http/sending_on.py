"""Requests answered by another replica, at which the thing lives that they are about."""

from __future__ import annotations

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from multidict import CIMultiDict

from mcpdesk.errors import ProtocolError, ReplicaSilent, StorageError, TransportError
from mcpdesk.protocol.jsonrpc import ErrorCode, Id
from mcpdesk.transports.base import Replicas
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.responses import rpc_error

FORWARDED = "X-Mcpdesk-Forwarded"
"""Header of a request that a replica sent on; such a one is not sent on again."""
OF_ONE_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade", "content-length", "expect"}
)
RETRY_S = 1
PROMPT_S = 2.0
"""How long another replica may take to answer what needs no thought."""


def may_be_sent_on(request: web.BaseRequest) -> bool:
    """Whether a request comes from a client, and not from a replica that sent it on."""
    return FORWARDED not in request.headers


async def send_on(
    request: web.BaseRequest,
    replicas: Replicas,
    replica: str,
    body: bytes = b"",
    within_s: float | None = None,
) -> web.StreamResponse:
    """Answer as another replica does, which must begin to answer `within_s`.

    Raises: TransportError when it cannot be reached; ReplicaSilent when it gives no answer; StorageError.
    """
    headers = {name: value for name, value in request.headers.items() if name.lower() not in OF_ONE_HOP}
    target = request.raw_path
    async with replicas.answer_of(replica, request.method, target, headers, body, within_s) as answer:
        kept = CIMultiDict((name, it) for name, it in answer.headers if name.lower() not in OF_ONE_HOP)
        response = web.StreamResponse(status=answer.status, headers=kept)
        connection = connection_of(request)
        chunks = answer.chunks()
        try:
            await response.prepare(request)
            async for piece in chunks:
                await response.write(piece)
            await response.write_eof()
        except (ConnectionError, ClientConnectionResetError):
            connection.abort()
        except TransportError:
            connection.abort()  # the client must not take what it has for a whole answer
        return response


def try_again(error: StorageError | ReplicaSilent, identifier: Id | None = None) -> web.Response:
    """The answer to what cannot be done while the engine is away, or another replica gives no answer."""
    answer = rpc_error(503, ProtocolError(ErrorCode.INTERNAL_ERROR, str(error)), identifier)
    answer.headers["Retry-After"] = str(RETRY_S)
    return answer
