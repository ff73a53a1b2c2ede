"""Types of the answer to a frame, and the interface for messages about a request that is being answered."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeAlias

from mcpdesk.protocol.phases import Phases

Reply: TypeAlias = tuple[int, bytes | None, Phases | None]
"""HTTP status (ignored on pipes), body (None for no answer), and durations of the phases, if known."""
Answer: TypeAlias = Reply | Coroutine[Any, Any, Reply]
"""An immediate reply, or a coroutine that returns the reply."""

ACCEPTED: Reply = (202, None, None)
LARGE_ANSWER_BYTES = 64 << 10
"""An answer of at least this many bytes must be reserved in the budget of unread answers."""


class Outlet(Protocol):
    """Receives messages about one request while it is being answered. Transports implement it."""

    @property
    def may_send(self) -> bool:
        """True if messages reach the peer. False if the peer accepts only the answer."""

    @property
    def must_drain(self) -> bool:
        """True if `drain` must be called before the next message."""

    def send(self, message: bytes) -> None:
        """Queue one encoded message."""

    async def drain(self) -> None:
        """Wait until the peer has read enough of the queue."""

    async def reserve(self, size: int) -> None:
        """Wait until an answer of `size` bytes may be held for the peer. Call it before encoding the answer.

        Raises: AnswerRefused if the peers of all connections leave too much unread.
        """

    def keep_alive(self) -> None:
        """Send a keep-alive without a message, if the transport supports it."""

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection of a stream that its client can resume. Return False if that is impossible."""

    async def cut_off(self, answer: bytes) -> bool:
        """Write half of an answer and break the connection. Return False if that is impossible."""


class NullOutlet:
    """Outlet that drops all messages."""

    may_send = False
    must_drain = False

    def send(self, message: bytes) -> None:
        """Drop the message."""

    async def drain(self) -> None:
        """Return at once, because nothing is queued."""

    async def reserve(self, size: int) -> None:
        """Return at once, because no answers are held for a peer."""

    def keep_alive(self) -> None:
        """Do nothing, because a null outlet has no connection."""

    async def close_stream(self, retry_ms: int) -> bool:
        """Return False, because a null outlet has no stream."""
        return False

    async def cut_off(self, answer: bytes) -> bool:
        """Return False, because a null outlet has no connection."""
        return False


NULL_OUTLET = NullOutlet()
