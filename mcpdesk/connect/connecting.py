"""Connection to any server, for the duration of a block."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from mcpdesk.client.connection import Questions, ServerConnection
from mcpdesk.client.targets import BrokenTarget, CommandTarget, FolderTarget, RemoteTarget, UrlTarget
from mcpdesk.client.transport import ClientTransport
from mcpdesk.errors import ConnectTimeout
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.upstream.target_transport import ClientPlace, ProgramEvents, Reach, target_transport

if TYPE_CHECKING:
    from mcpdesk.client.negotiation import Agreement
    from mcpdesk.hosting.host import Host
    from mcpdesk.server.offer.server import Server

Target: TypeAlias = "FolderTarget | RemoteTarget | ClientTransport | Host | Server"
"""A folder or a `Host` to run in this process, a URL, a program to start, a `Server`, or a transport."""
NO_REACH = Reach()
SILENT = ProgramEvents(lambda line: None, lambda line: None)
CLOSE_TIMEOUT_S = 5.0
"""Maximum seconds for closing a connection."""


@asynccontextmanager
async def connect(
    target: Target,
    identity: Mapping[str, str],
    *,
    reach: Reach = NO_REACH,
    answers: Callable[[], Questions] = dict,
    on_log: ProgramEvents = SILENT,
    log_level: str | None = None,
    limit_s: float | None = None,
) -> AsyncIterator[ServerConnection]:
    """Connect to a server until the block ends. A server that was started for the connection is ended, too.

    `identity` is the name and version that the server sees. `reach` contains mode, credentials and revision.
    `answers` returns the handlers of questions. `on_log` receives the output of a program. `log_level`
    requests log messages. With `limit_s`, the connection is opened within this number of seconds, before the
    block begins. Otherwise the first request opens it.

    Raises: DeskError if the server cannot be hosted, started or reached; ConnectTimeout after `limit_s`.
    """
    async with _open_target(target, reach, on_log) as (transport, agreement):
        connection = ServerConnection(
            transport,
            identity,
            questions=answers,
            revision=BY_NAME.get(reach.revision),
            agreement=agreement,
            log_level=log_level,
        )
        try:
            if limit_s is not None:
                await open_within(connection, limit_s)
            yield connection
        finally:
            with suppress(TimeoutError):  # a slow close must not replace the result or the error of the block
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await connection.close()


async def open_within(connection: ServerConnection, limit_s: float) -> None:
    """Open a connection. Raises: CallError; ConnectTimeout after `limit_s` seconds.

    After a ConnectTimeout, the connection is closed.
    """
    try:
        async with asyncio.timeout(limit_s) as limit:
            await connection.open()
    except TimeoutError:
        if not limit.expired():
            raise
        awaited_method = connection.unaccepted_method
        # A program that does not flush its output writes it when it ends, so that the error can quote it.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await connection.close()
        received = f": {connection.unexpected_bytes}" if connection.unexpected_bytes else ""
        message = f"no answer to {awaited_method} within {limit_s:g} s{received}"
        raise ConnectTimeout(message, connection.target) from None


TransportWithAgreement: TypeAlias = "tuple[ClientTransport, Agreement | None]"


def _open_target(
    target: Target, reach: Reach, on_log: ProgramEvents
) -> AbstractAsyncContextManager[TransportWithAgreement]:
    """Return a context manager for the transport to a target, and for the agreement if none is negotiated."""
    if isinstance(target, UrlTarget | CommandTarget | BrokenTarget | ClientTransport):
        return _remote_transport(target, reach, on_log)
    from mcpdesk.connect import in_process

    if isinstance(target, FolderTarget):
        return in_process.host_transport(in_process.lone_host(target.path), reach)
    from mcpdesk.server.offer.server import Server

    if isinstance(target, Server):
        return in_process.server_transport(target, reach)
    return in_process.host_transport(target, reach)


@asynccontextmanager
async def _remote_transport(
    target: RemoteTarget | ClientTransport, reach: Reach, on_log: ProgramEvents
) -> AsyncIterator[TransportWithAgreement]:
    if isinstance(target, ClientTransport):
        yield target, None
        return
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    client_place = ClientPlace(settings.state_dir, settings.api_key_header)
    yield target_transport(target, reach, client_place, on_log), None
