"""Interface between the byte-stream transports and the core, and the limits of their buffers.

A transport does not parse what it carries. It opens a pipe, feeds it bytes in any split, and writes the bytes
that the pipe sends.
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

READ_SIZE = 64 << 10
"""Bytes read at once: the capacity of a pipe. Larger buffers are allocated on each read, which is slow."""
HIGH_WATER = 8 << 20
"""Bytes of unread answers above which requests of the peer are not read until it has read some."""
LOW_WATER = 1 << 20
GRACE_S = 1.5
"""Time calls may continue after the peer's end of input. Clients send SIGTERM after two seconds."""


class PipeRequest(Struct, frozen=True):
    """Server that a peer asks for, and how it is reached."""

    server: str | None
    """Name of the server; None for the first one."""
    transport: str
    peer: str = ""
    """Display name of the peer."""
    mode: str = ""
    session: str = ""
    """Identifies a session that other processes may have served before; empty for a new one."""
    environment: Mapping[str, str] | None = None
    """Environment of the peer's process, or None if it is that of this process."""


OpenPipe: TypeAlias = "Callable[[PipeRequest, Callable[[bytes], None]], Pipe]"
"""Opens a pipe. The second argument receives complete lines with their newlines, a large one in two pieces,
and must not block.

Raises: DeskError for an unknown server or mode, or one that is not served; OtherEnvironmentError if tools
read environment variables that differ for this peer.
"""


async def finish_calls(pipe: Pipe, grace_s: float = GRACE_S) -> None:
    """After the peer's end of input, let running calls finish for up to `grace_s`, then close the pipe."""
    pipe.eof()
    try:
        async with asyncio.timeout(grace_s):
            await pipe.drained()
    except TimeoutError:
        log.info("calls still running %s s after the end of input are cancelled", grace_s)
    finally:
        pipe.close()


async def start_accepting(creating: Coroutine[Any, Any, asyncio.Server]) -> asyncio.Server:
    """Return the server that a coroutine of the loop creates. If this is cancelled, the server is closed.

    The loop listens before its coroutine ends, so a plain `await` would lose the server.
    """
    task = asyncio.get_running_loop().create_task(creating)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_close_created)
        await asyncio.wait({task})  # before the socket's owner closes it; takes a turn of the loop
        raise


def _close_created(task: asyncio.Task[asyncio.Server]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server on the running loop, but keep the connections that it has accepted.

    asyncio's `Server.close` alone loses those whose transport does not exist yet: they are neither served nor
    closed. Other loops create the transport at once.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for listener in server.sockets:
            loop.remove_reader(listener)
    await asyncio.sleep(0)  # creates the transports
    await asyncio.sleep(0)  # calls `connection_made`
    server.close()
