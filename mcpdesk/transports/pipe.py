"""What every byte-stream transport shares: the pipe it is given, and how its writes are gathered.

A transport does not know what it carries. It opens a pipe, feeds it bytes in any split, and writes what comes
back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpdesk.transports.replay import ClientState

log = logging.getLogger(__name__)

READ_SIZE = 64 << 10
"""Bytes read at once: what a pipe holds. Larger buffers come from the system each time, which is slow."""
HIGH_WATER = 8 << 20
"""Unread answers in bytes, above which we stop reading a peer's requests until it has read some."""
LOW_WATER = 1 << 20
GRACE_S = 1.5
"""How long calls may go on after the peer's end of input. Clients send SIGTERM after two seconds."""


class FramePipe(Protocol):
    """One conversation over newline-delimited frames."""

    @property
    def connection(self) -> int:
        """The recorder's number for this connection."""

    @property
    def is_identified(self) -> bool:
        """Whether it is known who the peer is, so that bytes may be fed."""

    async def identify(self) -> None:
        """Find out who the peer is."""

    def feed(self, data: bytes) -> None:
        """Take what the peer sent, split anywhere."""

    def pause(self) -> None:
        """The peer reads too slowly: handlers that report have to wait."""

    def resume(self) -> None:
        """The peer keeps up again."""

    def eof(self) -> None:
        """The peer will send nothing more; it may still read."""

    async def drained(self) -> None:
        """Return when no call is under way."""

    def leave(self) -> ClientState | None:
        """End the conversation silently so that another server can continue it; returns what that must know.

        Returns None, and does nothing, while a call of the peer runs or something of it is kept here.
        """

    def close(self) -> None:
        """Cancel what is under way and send nothing more. Harmless when called twice."""


class OpenPipe(Protocol):
    """Opens a pipe. `server` None is the first one.

    `send` gets whole lines with their newlines, a large one in two pieces, and must not block. `session` is
    the mark of a session that other processes may have served before; empty for a new one. `environment` is
    that of the peer's process; None if it is ours.
    Raises: DeskError when there is no such server, or it has no such mode; OtherEnvironmentError when tools
    read variables of the process that are others for this peer.
    """

    def __call__(
        self,
        server: str | None,
        transport: str,
        send: Callable[[bytes], None],
        peer: str = "",
        mode: str = "",
        session: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> FramePipe: ...


async def finish_calls(pipe: FramePipe, grace_s: float = GRACE_S) -> None:
    """After the peer's end of input: let running calls finish, for `grace_s`, and close the pipe."""
    pipe.eof()
    try:
        async with asyncio.timeout(grace_s):
            await pipe.drained()
    except TimeoutError:
        log.info("calls still under way %s s after the end of input are cancelled", grace_s)
    finally:
        pipe.close()
