"""Clients that have disconnected, with totals of all their connections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

MAX_FORMER_CLIENTS: Final = 20
"""Maximum number of former clients that are kept for each server. Others are only included in one total."""
MAX_DURATIONS: Final = 64
"""Maximum number of durations that are kept for each former client."""


class ClientKey(NamedTuple):
    """Identity of a client, which is the same for all its connections to one server."""

    name: str
    """Display name with the version."""
    transport: str
    mode: str = ""
    caller: str = ""


class ClientSummary(Struct, frozen=True):
    """Data about one connection of a client, with totals that include earlier connections."""

    key: ClientKey
    connection: int
    """Connection number in the record."""
    revision: str
    opened: float
    closed: float | None
    """Unix time in seconds when the connection ended, or None while it is open."""
    calls: int
    errors: int
    durations: tuple[float, ...] = ()
    """Durations of the latest calls in seconds."""
    capabilities: Mapping[str, Any] = {}
    tools_listed: int | None = None
    """Fingerprint of the tool list that the client received last, or None."""
    connections: int = 1
    """Number of connections that the totals include."""

    def after(self, earlier: ClientSummary | None) -> ClientSummary:
        """Return this summary with the totals of an earlier connection added."""
        if earlier is None:
            return self
        return replace(
            self,
            calls=earlier.calls + self.calls,
            errors=earlier.errors + self.errors,
            durations=(*earlier.durations, *self.durations)[-MAX_DURATIONS:],
            tools_listed=earlier.tools_listed if self.tools_listed is None else self.tools_listed,
            connections=earlier.connections + self.connections,
        )


class FormerClients:
    """Former clients of one server. Changed on one loop; any thread may use `clients` and `dropped`."""

    def __init__(self) -> None:
        self._by_key: dict[ClientKey, ClientSummary] = {}
        """Clients by key. The client that left first comes first."""
        self.dropped: ClientSummary | None = None
        """Total of the clients that are no longer kept separately, or None.

        The key of this total has no mode.
        """
        self._dropped_count = 0
        """Number of times that a client was added to this total."""

    def add(self, client: ClientSummary) -> None:
        """Add a connection that has ended."""
        self._by_key[client.key] = client.after(self._by_key.pop(client.key, None))
        if len(self._by_key) > MAX_FORMER_CLIENTS:
            oldest = self._by_key.pop(next(iter(self._by_key)))
            self._dropped_count += 1
            plural = "s" if self._dropped_count > 1 else ""
            key = ClientKey(f"({self._dropped_count:,} earlier client{plural})", "")
            dropped_client = replace(oldest, key=key, revision="", capabilities={}, tools_listed=None)
            self.dropped = dropped_client.after(self.dropped)

    def clients(self) -> list[ClientSummary]:
        """Return all former clients. The client that left first comes first."""
        return list(self._by_key.values())

    def find(self, connection: int) -> ClientSummary | None:
        """Return the former client whose last connection has this number, or None."""
        clients = [*self.clients(), *([] if self.dropped is None else [self.dropped])]
        return next((client for client in clients if client.connection == connection), None)
