"""Servers that `mcpdesk test` and `mcpdesk load` start, or connect to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcpdesk.cli.reach import (
    find_server,
    named_connection,
    server_folder,
    transport_to_open_connection,
    with_hint,
)
from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.runtime.core_process import capture_output
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.testing.connected_server import ConnectedServer

TRANSPORTS = ("memory", "stdio", "http")
"""Transports to a folder. With `memory`, the folder is hosted in this process."""


def transports_of(names: str, is_folder: bool) -> list[str]:
    """Parse `--over`: names of transports, separated by commas. The result is [""] for a server that is not a
    folder.

    Raises: DeskUserError for an unknown transport.
    """
    transports = list(dict.fromkeys(names.split(",")))
    if not set(transports) <= set(TRANSPORTS):
        raise DeskUserError(
            f"--over: {names!r} is not a transport for a folder.", f"Allowed: {', '.join(TRANSPORTS)}."
        )
    if not is_folder and transports != ["memory"]:
        raise DeskUserError("--over is for a folder.", "Omit it for other servers.")
    return transports if is_folder else [""]


def run_with_server(
    transport: str, target: str, reach: Reach, work: Callable[[ConnectedServer, int], Awaitable[None]]
) -> None:
    """Connect to a server over one of the transports that `transports_of` returns, and run `work`.

    `work` gets the server and the file descriptor for results. Raises: DeskError if the server cannot be
    hosted, started or reached.
    """
    from mcpdesk.testing.connected_server import connected, isolated

    output_fd = 1

    @contextmanager
    def captured(host: Host) -> Iterator[None]:
        nonlocal output_fd
        with capture_output(host, "wire") as descriptors:
            output_fd = descriptors.stdout_fd
            yield

    if transport:
        opening = isolated(server_folder(target), reach, transport, captured=captured)
    elif (connection := named_connection(target, reach)) is not None:
        opening = connected(*transport_to_open_connection(connection, reach))
    else:
        server_target = find_server(target, reach)
        opening = connected(server_target, reach)

    async def run() -> None:
        async with opening as server:
            await work(server, output_fd)

    try:
        asyncio.run(run())
    except CallError as error:
        raise with_hint(error) from None
