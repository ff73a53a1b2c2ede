"""Rows of the list of clients.

A client that connects again keeps its row. The row has the totals of all its connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mcpdesk.hosting.channel import HostedDialogue
from mcpdesk.hosting.endpoint import HostedEndpoint, summary_of
from mcpdesk.link.values import ClientView, ToolsSeen
from mcpdesk.recorder.former_clients import ClientKey, ClientSummary, FormerClients
from mcpdesk.server.calls.call_figures import quantile

SHOWN_FORMER_S = 3600.0
"""Seconds for which a client is shown after it has left."""
LISTEN = "subscriptions/listen"
"""Method of a request that opens a stream of notifications. It does not count as running work."""


class PassedRow(NamedTuple):
    """Connected client of a pass-through server."""

    server: str
    client: ClientSummary
    seen: float | None
    """Unix time of the last message, or None while a request is being handled."""


def hosted_views(endpoint: HostedEndpoint, last_seen: Mapping[int, float | None]) -> list[ClientView]:
    """Return the rows of a hosted server, for connected clients and those that left recently.

    `last_seen` has the last activity of each client whose session remains without a connection: a Unix time
    in seconds, or None while the client is connected.
    """

    def tools_seen(client: ClientSummary) -> ToolsSeen:
        if client.tools_listed is None:
            return ToolsSeen.NEVER
        offers = endpoint.modes.get(client.key.mode, endpoint).dispatcher.offers
        return ToolsSeen.FRESH if client.tools_listed == offers.tools_fingerprint() else ToolsSeen.STALE

    rows = _ServerRows(endpoint.name, endpoint.former_clients, tools_seen)
    views = []
    for dialogue in sorted(endpoint.dialogues.values(), key=_connection_number):
        client = summary_of(dialogue)
        running = sum(call.method != LISTEN for call in dialogue.conversation.running)
        views.append(rows.row(client, last_seen.get(client.connection), running))
    return [*views, *rows.unconnected_rows()]


def passed_views(
    connected: Iterable[PassedRow], former_by_server: Mapping[str, FormerClients]
) -> list[ClientView]:
    """Return the rows of pass-through servers, for connected clients and those that left recently."""
    rows_by_server = {server: _ServerRows(server, former) for server, former in former_by_server.items()}
    views = []
    for server, client, last_seen in sorted(connected, key=lambda row: row.client.connection):
        rows = rows_by_server.setdefault(server, _ServerRows(server, FormerClients()))
        views.append(rows.row(client, last_seen))
    return [*views, *(view for rows in rows_by_server.values() for view in rows.unconnected_rows())]


def _connection_number(dialogue: HostedDialogue) -> int:
    return dialogue.connection


def _never(_: ClientSummary) -> ToolsSeen:
    """Return the state for servers whose tool lists are not recorded."""
    return ToolsSeen.NEVER


class _ServerRows:
    """Creates the rows of one server.

    The totals of earlier connections are added to the first open connection of the same client. If the client
    has no open connection, these totals form a separate row.
    """

    def __init__(
        self,
        server: str,
        former_clients: FormerClients,
        tools_seen: Callable[[ClientSummary], ToolsSeen] = _never,
    ) -> None:
        self._server = server
        self._tools_seen = tools_seen
        self._former: dict[ClientKey, ClientSummary] = {
            client.key: client for client in former_clients.clients()
        }
        """Clients without a row so far, by key."""
        self._dropped = former_clients.dropped

    def row(self, client: ClientSummary, last_seen: float | None, running: int = 0) -> ClientView:
        """Return the row of an open connection.

        `last_seen` is the Unix time of its last message, or None while it is connected.
        """
        earlier = None if client.key.transport == "memory" else self._former.pop(client.key, None)
        return self._view(client.after(earlier), last_seen, running)

    def unconnected_rows(self) -> list[ClientView]:
        """Return the rows of clients that left.

        One more row is for all clients that are not remembered separately.
        """
        oldest_end = time.time() - SHOWN_FORMER_S
        clients = [client for client in self._former.values() if (client.closed or 0.0) > oldest_end]
        if self._dropped is not None:
            clients.append(self._dropped)
        return [self._view(client, client.closed) for client in clients]

    def _view(self, client: ClientSummary, last_seen: float | None, running: int = 0) -> ClientView:
        """Return the row of a client."""
        durations = sorted(client.durations)
        return ClientView(
            connection=client.connection,
            server=self._server,
            name=client.key.name,
            transport=client.key.transport,
            revision=client.revision,
            opened=client.opened,
            calls=client.calls,
            errors=client.errors,
            p50_s=quantile(durations, 0.5),
            p95_s=quantile(durations, 0.95),
            tools=self._tools_seen(client),
            mode=client.key.mode,
            caller=client.key.caller,
            seen=last_seen,
            left=client.closed,
            running=running,
            connections=client.connections,
        )
