"""Interfaces between the transports and the core.

A transport moves frames and records them. It parses a message only as far as its transport protocol
requires.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from mcpdesk.errors import TransportError

if TYPE_CHECKING:
    from mcpdesk.protocol.handshake import SessionState

FORWARDED = "X-Mcpdesk-Forwarded"
"""Header of a request that another replica forwarded. Such a request is not forwarded again."""


class Rules(Struct, frozen=True):
    """Access rules and limits of the TCP listeners."""

    api_key: str = ""
    """API key that callers must send; empty for none."""
    api_key_header: str = "X-API-Key"
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 16 << 20
    max_bodies_bytes: int = 256 << 20
    """Maximum bytes of all requests that are received or answered at a time. Small requests do not count."""
    unread_answers_max_bytes: int = 256 << 20
    """Maximum bytes of all large answers that clients have not read yet."""
    session_ttl_s: float = 3600.0
    request_timeout_s: float = 30.0
    """Time limit for the arrival of a request. A large body gets more time."""
    max_connections: int = 1_000
    max_sessions: int = 10_000
    resume_bytes: int = 1 << 20
    """Bytes per session kept for clients that reconnect and resume a stream."""
    enable_mcp: bool = True
    streaming: bool = True
    """If False, progress and logs are omitted where they would turn a response into a stream."""


class ForwardedAnswer(Protocol):
    """Response of a pass-through server or of another replica."""

    status: int
    headers: Sequence[tuple[str, str]]

    def chunks(self) -> AsyncIterator[bytes]:
        """Body in pieces, as it arrives."""


class PassThrough(Protocol):
    """Upstream server that receives the forwarded requests of clients."""

    name: str
    """Name in its URL on this core."""
    next_connection: Callable[[], int]
    """Return the recorder's number for a new client connection."""
    leads: bool
    """True if this server comes before all hosted servers, so `/mcp` without a name is this server."""
    offered: Callable[[], Mapping[str, int]]
    """Return the number of items that the server listed, by kind."""
    dropped: int
    """Number of messages that were dropped because no client read them."""

    @property
    def takes_pieces(self) -> bool:
        """True if a body may be forwarded in pieces. It is then not stored, and its size is unlimited."""

    @property
    def has_lines(self) -> bool:
        """True if the server must send each message as one line."""

    def ask(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        on_unclaimed: Callable[[bytes], None] | None = None,
    ) -> AbstractAsyncContextManager[ForwardedAnswer]:
        """Forward a request. Leaving the block early cancels it. Raises: CallError if no response arrives.

        `on_unclaimed` receives messages of the server that are not delivered to this client, such as a second
        response. It may be called after the block.
        """


def leading(ways: Mapping[str, PassThrough]) -> PassThrough | None:
    """Return the first server if it is a pass-through server, or None if a hosted server comes before it."""
    return next((way for way in ways.values() if way.leads), None)


class SharedSession(Struct, frozen=True):
    """Session that every replica serves, as it was last read or written."""

    id: str
    """Hash of the session id."""
    server: str
    owner: str
    """Sealed owner, as returned by `seal`."""
    used: float
    """Time of the last use: Unix time in seconds by the engine's clock."""
    state: SessionState
    version: int
    block: int = 0
    """Block of numbers for the streams and requests of this replica in the session."""
    heard: str = "0-0"
    """Id of the latest event that the client has received."""


class NotTaken(TransportError):
    """Another replica rejected a WebSocket."""

    def __init__(self, status: int, moved: str) -> None:
        """`moved` is the replica that has the session or job; empty if the response named none."""
        super().__init__(f"a replica refused a WebSocket: {status}")
        self.status, self.moved = status, moved
