"""What every byte-stream transport shares: the pipe it is given, and how its writes are gathered.

A transport does not know what it carries. It opens a pipe, feeds it bytes in any split, and writes what comes
back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpdesk.transports.replay import ClientState

log = logging.getLogger(__name__)

READ_SIZE = 64 << 10
"""Bytes taken from the system at once: what a pipe holds. For larger pieces the allocator goes to the system,
which costs more than reading a message."""
HIGH_WATER = 8 << 20
"""Unread answers, in bytes, from which on we stop reading a peer's requests until it has read some."""
LOW_WATER = 1 << 20
WRITE_LIMIT = 256 << 20
"""Unread answers, in bytes, that end the connection: this peer does not read any more."""
GRACE_S = 1.5
"""How long calls may finish after the peer's end of input. Clients send SIGTERM after two seconds."""


class FramePipe(Protocol):
    """One conversation over newline-delimited frames."""

    @property
    def connection(self) -> int:
        """The recorder's number for it."""

    def feed(self, data: bytes) -> None:
        """Take what the peer sent, split anywhere."""

    def pause(self) -> None:
        """The peer does not keep up: let handlers that report wait."""

    def resume(self) -> None:
        """The peer keeps up again."""

    def eof(self) -> None:
        """The peer will send nothing more; it may still read."""

    async def drained(self) -> None:
        """Return when no call is under way."""

    def leave(self) -> ClientState | None:
        """End it without a word, for another server to go on; returns what that has to know.

        None, with nothing done, while anything of the peer's is under way or kept here.
        """

    def close(self) -> None:
        """Cancel what is under way and send nothing more. Harmless when called twice."""


class OpenPipe(Protocol):
    """Opens a pipe. `server` None is the first one.

    `send` gets whole lines with their newlines, a large one in two pieces, and must not block.
    Raises: DeskError when there is no such server, or it has no such mode.
    """

    def __call__(
        self,
        server: str | None,
        transport: str,
        send: Callable[[bytes], None],
        peer: str = "",
        mode: str = "",
    ) -> FramePipe: ...


async def finish(pipe: FramePipe, grace_s: float = GRACE_S) -> None:
    """After the peer's end of input: let calls under way finish, for a while, and close."""
    pipe.eof()
    try:
        async with asyncio.timeout(grace_s):
            await pipe.drained()
    except TimeoutError:
        log.info("calls still under way %s s after the end of input are cancelled", grace_s)
    finally:
        pipe.close()


class Sender(Protocol):
    """One way out to a peer."""

    @property
    def unread(self) -> int:
        """Bytes that wait for the peer to read them."""

    def give_up(self) -> None:
        """Drop them, and the connection."""


class Unread:
    """All senders that hold something. Whoever writes much asks for a `check` afterwards."""

    def __init__(self, most: int = WRITE_LIMIT) -> None:
        self.most = most
        """Bytes they may hold together; beyond it the slowest readers are given up."""
        self._senders: dict[Sender, tuple[int, float]] = {}
        """What each held at the latest check, and since when it has not read anything."""

    def add(self, sender: Sender) -> None:
        """Count a sender from now on. Harmless when called twice."""
        self._senders.setdefault(sender, (0, 0.0))

    def remove(self, sender: Sender) -> None:
        """Count it no more. Harmless when called twice."""
        self._senders.pop(sender, None)

    def check(self) -> None:
        """Give up those that have read nothing for longest, as long as all hold too much."""
        now, total = time.monotonic(), 0
        for sender, (before, since) in list(self._senders.items()):
            size = sender.unread
            total += size
            self._senders[sender] = size, since if before and size >= before else now
        while total > self.most:
            slowest = min((each for each in self._senders if self._senders[each][0]), key=self._waits_since)
            size = self._senders[slowest][0]
            log.warning("ended a connection that left %d bytes of answers unread: all hold too many", size)
            self.remove(slowest)
            slowest.give_up()
            total -= size

    def _waits_since(self, sender: Sender) -> tuple[float, int]:
        size, since = self._senders[sender]
        return since, -size


UNREAD = Unread()
"""That of this process."""
