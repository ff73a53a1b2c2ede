"""Connections to servers of this process: a server folder, or a `Server` put together in code."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.in_memory import InMemory
from mcpdesk.client.negotiation import Agreement
from mcpdesk.errors import RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.recorder.record import ConnectionInfo, HttpNote
    from mcpdesk.server.offer.server import Server

IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""What servers are told."""


async def connect_to_folder(
    folder: Path, mode: str, token: str | None = None, questions: Questions | None = None
) -> ServerConnection:
    """Host a server folder for one caller, until the connection is closed.

    Raises: ManifestError, DeskUserError when it cannot be hosted, or has no such mode; RpcError for a token
    that does not count.
    """
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings

    settings = effective_settings({}, os.environ, folder).settings
    host = Host(HostPlan((folder,), settings, http=False, meet=False, watch=False))
    async with AsyncExitStack() as unless_hosted:
        unless_hosted.push_async_callback(host.stop)
        host.load()
        await host.wake()
        endpoint = host.endpoint("", mode)
        assert endpoint is not None
        connection = _connected(endpoint, await caller(endpoint.server, token), questions, host.stop)
        unless_hosted.pop_all()
    return connection


async def connect_to_server(
    server: Server, token: str | None = None, questions: Questions | None = None
) -> ServerConnection:
    """Connect to a server that was put together in code. Raises: RpcError for a token that does not count."""
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.server.calls.services import Services

    def log(*_: object, **__: object) -> None:
        """Nobody reads it."""

    principal = await caller(server, token)
    return _connected(HostedEndpoint(server, Services(log), Unrecorded()), principal, questions)


def _connected(
    endpoint: HostedEndpoint,
    principal: Principal,
    questions: Questions | None,
    on_close: Callable[[], Awaitable[None]] | None = None,
) -> ServerConnection:
    transport = InMemory(
        lambda write: endpoint.channel("memory", "bridge", write, {}, principal),
        endpoint.name,
        on_close=on_close,
    )
    server = endpoint.server
    told = Agreement(LATEST, {"name": endpoint.name, "version": server.version}, server.instructions)
    return ServerConnection(transport, IDENTITY, questions=lambda: questions or {}, agreement=told)


async def caller(server: Server, token: str | None) -> Principal:
    """Who calls. As over HTTP, a token is looked at where one makes a difference, and has to count there.

    Raises: RpcError (-32001), with the words a server has for it.
    """
    from mcpdesk.auth.keys import KeysMissing
    from mcpdesk.auth.token_rules import INVALID
    from mcpdesk.auth.tokens import Rejected

    if token is None or not server.access.is_asked:
        return OPEN
    try:
        return await server.access.verify(token)
    except Rejected:
        raise RpcError(ErrorCode.UNAUTHORIZED, INVALID, None, server.name) from None
    except KeysMissing:
        raise RpcError(ErrorCode.INTERNAL_ERROR, "Tokens cannot be checked now", None, server.name) from None


class Unrecorded:
    """A recorder that keeps nothing."""

    def connect(self, info: ConnectionInfo) -> None:
        """Keep nothing."""

    def frame(self, *_: Any, **__: Any) -> int:
        """Keep nothing."""
        return 0

    def together(self, *_: Any, **__: Any) -> int:
        """Keep nothing."""
        return 0

    def note(self, note: HttpNote) -> None:
        """Keep nothing."""
