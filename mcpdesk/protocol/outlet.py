"""What goes back to a peer: the reply to a frame, and messages about a request that is being answered."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeAlias

from mcpdesk.protocol.phases import Phases

Reply: TypeAlias = tuple[int, bytes | None, Phases | None]
"""A status, which matters on HTTP only, a body (None: nothing to say), and where its time went, if known."""
Answer: TypeAlias = Reply | Coroutine[Any, Any, Reply]
"""A reply at once, or a coroutine to await for it."""

ACCEPTED: Reply = (202, None, None)


class Outlet(Protocol):
    """Where messages about one request go while it is being answered. Transports implement it."""

    @property
    def may_send(self) -> bool:
        """Whether messages reach the peer at all: some take a single answer and nothing else."""

    @property
    def must_drain(self) -> bool:
        """Whether to `drain` before the next message."""

    def send(self, message: bytes) -> None:
        """Queue one encoded message."""

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was queued."""

    async def reserve(self, size: int) -> None:
        """Wait until an answer of so many bytes may be held for the peer. Called before it is encoded.

        Raises: AnswerRefused when the peers of all connections leave too much unread.
        """

    def keep_alive(self) -> None:
        """Show life on the connection without a message, where the transport can."""

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection of a stream that its client can resume; False where that is not possible."""

    async def cut_off(self, answer: bytes) -> bool:
        """Write half of an answer and break the connection; False where only its owner can end it."""


class NullOutlet:
    """An outlet that drops what it is given."""

    may_send = False
    must_drain = False

    def send(self, message: bytes) -> None:
        """Drop it."""

    async def drain(self) -> None:
        """Nothing is queued."""

    async def reserve(self, size: int) -> None:
        """Nothing is held for a peer."""

    def keep_alive(self) -> None:
        """There is no connection."""

    async def close_stream(self, retry_ms: int) -> bool:
        """There is nothing to close."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """There is nothing to break."""
        return False


NULL_OUTLET = NullOutlet()
