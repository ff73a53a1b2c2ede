"""Interfaces between the transports and the core.

A transport moves frames and records them. It parses a message only as far as its transport protocol
requires.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from mcpdesk.protocol.handshake import SessionState


class Rules(Struct, frozen=True):
    """Access rules and limits of the TCP listeners."""

    api_key: str = ""
    """API key that callers must send, or "" if none is required."""
    api_key_header: str = "X-API-Key"
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 16 << 20
    max_bodies_bytes: int = 256 << 20
    """Maximum bytes of all requests that are being received or answered. Small requests do not count."""
    unread_answers_max_bytes: int = 256 << 20
    """Maximum total size in bytes of the large answers that clients have not read yet."""
    session_ttl_s: float = 3600.0
    request_timeout_s: float = 30.0
    """Seconds within which a request must arrive. A large body has more time."""
    max_connections: int = 1_000
    max_sessions: int = 10_000
    resume_bytes: int = 1 << 20
    """Size in bytes of the events kept for each session, for clients that resume a stream."""
    enable_mcp: bool = True
    streaming: bool = True
    """If False, progress and log messages are left out, so that a response does not become a stream."""


class ForwardedAnswer(Protocol):
    """Response of a pass-through server or of another process."""

    status: int
    headers: Sequence[tuple[str, str]]

    def chunks(self) -> AsyncIterator[bytes]:
        """Body in pieces, as it arrives."""


class PassThrough(Protocol):
    """Upstream server that receives the forwarded requests of clients."""

    name: str
    """Name of the server in its URL on this core."""
    next_connection: Callable[[], int]
    """Function that returns the recorder's number for a new client connection."""
    leads: bool
    """True if this server comes before all hosted servers. `/mcp` without a name then addresses it."""
    offered: Callable[[], Mapping[str, int]]
    """Function that returns the number of items that the server listed, by kind."""
    dropped: int
    """Number of messages that were discarded because no client read them."""

    @property
    def accepts_pieces(self) -> bool:
        """True if a body may be forwarded in pieces. It is then not stored and has no size limit."""

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
        """Forward a request. Leaving the block early cancels the request.

        `on_unclaimed` is called with messages of the server that this client does not receive, such as a
        second response. It may also be called after the block. Raises: CallError if no response arrives.
        """


def first_pass_through(servers: Mapping[str, PassThrough]) -> PassThrough | None:
    """Return the first server if it is a pass-through server, or None if a hosted server comes before it."""
    return next((server for server in servers.values() if server.leads), None)


class SharedSession(Struct, frozen=True):
    """Session that several processes serve, as it was last read or written."""

    id: str
    """Hash of the session id."""
    server: str
    owner: str
    """Owner in the sealed form that `seal` returns."""
    used: float
    """Unix time of the last use in seconds, by the engine's clock."""
    state: SessionState
    version: int
    block: int = 0
    """Number of the block from which this process takes the session's numbers of streams and requests."""
    last_event: str = "0-0"
    """Id of the latest event that the client has received."""
