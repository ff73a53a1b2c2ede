"""Report of open connections. It is also the schema of `mcpdesk ps --json`.

Texts may contain unsafe characters.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

VERSION = 1
"""Number of the schema. It changes when a member is removed or its meaning changes, not when one is added."""

TransportKind = Literal["folder", "stdio", "http", "sse", "ws"]


class ConnectionState(StrEnum):
    """State of an open connection."""

    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"
    """It is not connected. `reason` has the error."""
    ENDED = "ended"
    """The program of the server has ended. `reason` has its exit code and its last output."""

    @property
    def is_down(self) -> bool:
        """True if `mcpdesk up` must connect again."""
        return self in (ConnectionState.FAILED, ConnectionState.ENDED)


class ConnectionReport(Struct, frozen=True):
    """One open connection."""

    name: str
    """Name that other commands accept as a target."""
    target: str
    """Server, as it was given to `mcpdesk up`, with secrets masked."""
    transport: TransportKind
    """`folder` for a server folder, which the process hosts itself."""
    state: ConnectionState
    reason: str
    """Reason why the server is not connected. Empty if it is."""
    hint: str
    """Advice for a person. Empty if the server is connected."""
    server: str
    """Name that the server reports."""
    server_version: str
    revision: str
    """Protocol revision. Empty for a folder, where each client has its own, and before the connection."""
    tools: int | None
    """Number of tools, or null if the list is unknown."""
    pid: int
    """Process that keeps the connection."""
    since: float
    """Start of the process, as Unix time in seconds."""
    calls: int
    """Number of tool calls of commands, or all tool calls of a folder."""
    clients: int
    """Number of commands and clients that use the connection now."""
    idle_s: float
    """Seconds since the last use. 0 during use."""
    keep_open_s: int
    """Seconds without use after which the connection ends."""
    folder: str
    """Path of the folder. Empty for other servers."""


class ConnectionDescription(Struct, frozen=True):
    """Description of an open connection, which its process sends to commands."""

    report: ConnectionReport
    key: str
    """Identity of the server, by which the same target is recognized."""


class ConnectionList(Struct, frozen=True):
    """All open connections of this user, oldest first."""

    version: int
    connections: list[ConnectionReport]
    not_answering: list[int] = []
    """Ids of processes that keep a connection and do not answer."""
