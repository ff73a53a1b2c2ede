"""Interface between byte-stream transports and the core, and limits of their buffers.

A transport does not parse the bytes. It opens a pipe, passes received bytes to it, and writes the bytes that
the pipe sends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import Pipe

log = logging.getLogger(__name__)

READ_BYTES = 64 << 10
"""Maximum size in bytes of one read: the capacity of a pipe. Larger buffers are slow to allocate."""
HIGH_WATER = 8 << 20
"""While the peer has more unread bytes of answers than this, no requests of the peer are read."""
LOW_WATER = 1 << 20
"""Requests are read again once the peer has fewer unread bytes of answers than this."""
GRACE_S = 1.5
"""Seconds that calls may run after the peer's input has ended. Clients send SIGTERM after two seconds."""


class PipeRequest(Struct, frozen=True):
    """Server that a peer asks for, and data about the peer."""

    server: str | None
    """Name of the server. None for the first one."""
    transport: str
    peer: str = ""
    """Display name of the peer."""
    mode: str = ""
    session: str = ""
    """Id of a session that other processes may have served before. Empty for a new session."""
    environment: Mapping[str, str] | None = None
    """Environment of the peer's process, or None if the peer has the environment of this process."""


OpenPipe: TypeAlias = "Callable[[PipeRequest, Callable[[bytes], None]], Pipe]"
"""Function that opens a pipe.

The pipe calls the second argument, which must not block, with complete lines and their newlines. It passes
a large line in two pieces.

Raises: DeskError if the server or mode is unknown or not served; OtherEnvironmentError if tools read
environment variables that differ for this peer.
"""


async def finish_calls(pipe: Pipe, grace_s: float = GRACE_S) -> None:
    """After the peer's input has ended, wait up to `grace_s` seconds for running calls. Close the pipe."""
    pipe.eof()
    try:
        async with asyncio.timeout(grace_s):
            await pipe.drained()
    except TimeoutError:
        log.info("calls still running %s s after the end of input are cancelled", grace_s)
    finally:
        pipe.close()


async def start_accepting(start_coroutine: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
    """Return the server that a coroutine of the loop creates. If the call is cancelled, close the server.

    The loop begins to listen before its coroutine ends. If a plain `await` were cancelled then, the server
    would stay open.
    """
    task = asyncio.get_running_loop().create_task(start_coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_close_created)
        await asyncio.wait({task})  # the socket must not be closed before this task ends
        raise


def _close_created(task: asyncio.Task[asyncio.Server]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server on the running loop. Connections that it has accepted stay open.

    asyncio's `Server.close` loses accepted connections whose transport does not exist yet: they are neither
    served nor closed. Other loops create the transport at once.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener)
    await asyncio.sleep(0)  # creates the transports
    await asyncio.sleep(0)  # calls `connection_made`
    server.close()
