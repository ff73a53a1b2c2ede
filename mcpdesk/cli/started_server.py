"""Servers that `mcpdesk test` and `mcpdesk load` start, or connect to."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mcpdesk.cli.reach import agreement, ask_input, server_folder, with_hint
from mcpdesk.client.targets import FolderTarget, RemoteTarget, find_target
from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.runtime.core_process import capture_output
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from mcpdesk.testing.connected_server import ConnectedServer

    Opening: TypeAlias = AbstractAsyncContextManager[ConnectedServer]

TRANSPORTS = ("memory", "stdio", "http")
"""Transports to a folder. `memory` hosts it in this process."""


def transports_of(over: str, is_folder: bool) -> list[str]:
    """Parse `--over`. Raises: DeskUserError for an unknown transport."""
    transports = list(dict.fromkeys(over.split(",")))
    if not set(transports) <= set(TRANSPORTS):
        raise DeskUserError(
            f"--over: {over!r} is not a transport for a folder.", f"Allowed: {', '.join(TRANSPORTS)}."
        )
    if not is_folder and transports != ["memory"]:
        raise DeskUserError("--over is for a folder.", "Omit it for other servers.")
    return transports if is_folder else [""]


@contextmanager
def started_server(transport_name: str, target: str, reach: Reach) -> Iterator[tuple[Opening, int]]:
    """Yield the server to connect to, and the file descriptor for results.

    Raises: DeskError if a folder cannot be hosted.
    """
    from mcpdesk.testing.connected_server import connected, isolated_host, stdio_target

    with tempfile.TemporaryDirectory(prefix="mcpdesk-test-", ignore_cleanup_errors=True) as state:
        if transport_name in ("memory", "http"):
            host = isolated_host(server_folder(target), Path(state), http=transport_name == "http")
            with capture_output(host, "wire") as claimed:
                yield connected(host, reach), claimed.stdout_fd
            return
        if transport_name == "stdio":
            server_target: RemoteTarget | FolderTarget = stdio_target(
                server_folder(target), Path(state), reach.mode, reach.token
            )
            reach = reach._replace(mode="", token=None)  # they are part of the command
        else:
            server_target = find_target(target, os.environ, ask_input, agreement(reach), reach.packages)
        assert not isinstance(server_target, FolderTarget)
        yield connected(server_target, reach), 1


def connect_and_run(opening: Opening, work: Callable[[ConnectedServer], Awaitable[None]]) -> None:
    """Connect and run `work`. Raises: DeskUserError if the server cannot be reached."""

    async def run() -> None:
        async with opening as server:
            await work(server)

    try:
        asyncio.run(run())
    except CallError as error:
        raise with_hint(error) from None
