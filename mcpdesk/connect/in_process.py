"""Servers that run in this process for one connection: a folder, a `Host`, or a `Server` made in code."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.keys import KeysMissing
from mcpdesk.auth.principal import INVALID_TOKEN, OPEN, Principal, Rejected
from mcpdesk.client.credentials import credential_headers
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.in_memory import InMemory
from mcpdesk.client.negotiation import Agreement
from mcpdesk.client.transport import ClientTransport
from mcpdesk.errors import RpcError
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import HostPlan, effective_settings
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.server import Server
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.recorder.record import ConnectionInfo


def lone_host(folder: Path, flags: Mapping[str, object] | None = None, **plan_fields: Any) -> Host:
    """Return a host of one folder that other processes cannot find. It does not watch the folder.

    `flags` are settings by name. `plan_fields` are fields of the `HostPlan`, which override the fields set
    here. Raises: ManifestError or DeskUserError if the folder cannot be hosted.
    """
    settings = effective_settings(flags or {}, os.environ, folder).settings
    isolated: dict[str, Any] = {"http": False, "accepts_pumps": False, "watch": False}
    return Host(HostPlan((folder,), settings, **{**isolated, **plan_fields}))


@asynccontextmanager
async def host_transport(host: Host, reach: Reach) -> AsyncIterator[tuple[ClientTransport, Agreement | None]]:
    """Run a host of one folder while the block runs. Connect over HTTP if the host listens, else in memory.

    Raises: DeskError if the folder cannot be hosted or has no such mode; RpcError for an invalid token.
    """
    try:
        await host.wake()
        if host.plan.http:
            await host.open()
        endpoint = host.endpoint("", reach.mode)
        assert endpoint is not None
        if host.plan.http:
            key, header = host.rules.api_key, host.settings.api_key_header
            headers = credential_headers(reach.token, key, header, dict(reach.headers))
            yield StreamableHttp(host.url(endpoint.name), headers, reach.mode), None
        else:
            yield _in_memory(endpoint, await _caller(endpoint.server, reach.token), reach)
    finally:
        await host.stop()


@asynccontextmanager
async def server_transport(
    server: Server, reach: Reach
) -> AsyncIterator[tuple[ClientTransport, Agreement | None]]:
    """Serve a `Server` made in code. Its messages are not recorded. Raises: RpcError for an invalid token."""

    def log(*_: object, **__: object) -> None:
        """Discard the log line."""

    principal = await _caller(server, reach.token)
    yield _in_memory(HostedEndpoint(server, Services(log), _Unrecorded()), principal, reach)


def _in_memory(
    endpoint: HostedEndpoint, principal: Principal, reach: Reach
) -> tuple[ClientTransport, Agreement | None]:
    """Connect in memory. If `reach` has no revision, the newest revision is used without negotiation."""
    transport = InMemory(
        lambda write: endpoint.channel("memory", "bridge", write, {}, principal), endpoint.name
    )
    server = endpoint.server
    agreement = Agreement(LATEST, {"name": endpoint.name, "version": server.version}, server.instructions)
    return transport, None if reach.revision else agreement


async def _caller(server: Server, token: str | None) -> Principal:
    """Return the principal of a token. A token is verified only if the server uses tokens, as over HTTP.

    Raises: RpcError (-32001) with the message that a server sends.
    """
    if token is None or not server.access.evaluates_tokens:
        return OPEN
    try:
        return await server.access.verify(token)
    except Rejected:
        raise RpcError(ErrorCode.UNAUTHORIZED, INVALID_TOKEN, None, server.name) from None
    except KeysMissing:
        raise RpcError(ErrorCode.INTERNAL_ERROR, "Tokens cannot be checked now", None, server.name) from None


class _Unrecorded:
    """Recorder that discards everything."""

    def connect(self, info: ConnectionInfo) -> None:
        """Discard the connection."""

    def frame(self, *_: Any, **__: Any) -> int:
        """Discard the frame."""
        return 0

    def remark(self, *_: Any, **__: Any) -> None:
        """Discard the remark."""

    def frame_batch(self, *_: Any, **__: Any) -> int:
        """Discard the frames."""
        return 0
