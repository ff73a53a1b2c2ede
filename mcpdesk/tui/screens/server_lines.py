"""One line of values for each server: state, reason, transport, revision, and counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcpdesk.link.link import Link
from mcpdesk.link.local.server_states import look_of
from mcpdesk.link.state_looks import Look, Tone
from mcpdesk.link.values import ClientView, CoreView, ItemKind, ServerView, connected
from mcpdesk.recorder.index.statistics import CallStatistics, Subject
from mcpdesk.recorder.record import ConnectionInfo

RECORDED = Look("○", "recorded", Tone.MUTED)
"""Look of a server of a capture, whose present state is unknown."""
_SCHEMES = {"ws": "websocket", "wss": "websocket", "https": "http"}
"""Scheme of the location -> transport, if their names differ."""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Numbers of the calls of one server in the recorded traffic."""

    calls: int = 0
    errors: int = 0
    peers: int = 0
    """Number of clients that made calls."""


NO_COUNTS = CallCounts()


@dataclass(frozen=True, slots=True)
class ServerLine:
    """Values in the row of one server."""

    name: str
    look: Look
    transport: str
    revision: str = ""
    """Revision that the desk uses with the server, or "" if it is unknown."""
    tools: int | None = None
    """Number of tools that can be called, or None if it is unknown."""
    clients: int = 0
    """Number of connected clients. For a server of a capture, the number of clients that made calls."""
    counts: CallCounts = NO_COUNTS
    reason: str = ""
    """Reason why the server is down or has problems. May have several lines."""
    stderr: str = ""
    """Last line that the server wrote to stderr, or that its code printed."""
    is_current: bool = False
    """True if the panes show this server."""
    position: int = 0
    """Position of the server in the default order."""
    view: ServerView | None = None
    """View of the server, or None for a server of a capture."""

    @property
    def is_down(self) -> bool:
        """True if the server cannot be used."""
        return self.look.tone is Tone.BAD


def transport_of(server: ServerView) -> str:
    """Return `folder`, `stdio`, `http`, `websocket` or another scheme."""
    if server.upstream is None:
        return "folder"
    scheme = server.upstream.scheme
    return _SCHEMES.get(scheme, scheme) if scheme else "stdio"


def reason_of(server: ServerView) -> str:
    """Return the reason why a server is down or has problems, or advice, or "" if it has no problem."""
    if server.problems:
        return "\n".join(one.strip() for one in server.problems)
    upstream = server.upstream
    return "" if upstream is None or upstream.state == "ready" else upstream.hint


def counts_of(statistics: CallStatistics) -> dict[str, CallCounts]:
    """Return the numbers of calls in the recorded traffic, by server."""
    counts: dict[str, CallCounts] = {}
    for (server, _), tally in statistics.sums(Subject.CLIENT).items():
        previous = counts.get(server, NO_COUNTS)
        calls, errors = previous.calls + tally.calls, previous.errors + tally.errors
        counts[server] = CallCounts(calls, errors, previous.peers + 1)
    return counts


def server_lines(
    link: Link, view: CoreView, current: str, counts: Mapping[str, CallCounts], last_stderr: Mapping[str, str]
) -> Iterator[ServerLine]:
    """Yield the lines of the servers on the desk. `last_stderr` has the last stderr line by server."""
    now = time.time()
    clients_by_server: dict[str, list[ClientView]] = {}
    for client in view.clients:
        clients_by_server.setdefault(client.server, []).append(client)
    for position, server in enumerate(view.servers):
        name, server_clients = server.name, clients_by_server.get(server.name, [])
        items = link.catalogue(name).items
        tool_count = sum(item.kind is ItemKind.TOOL and (not item.problem or item.stale) for item in items)
        yield ServerLine(
            name,
            look_of(server, link),
            transport_of(server),
            revision=_revision(server, server_clients),
            tools=tool_count,
            clients=connected(server_clients, now),
            counts=counts.get(name, NO_COUNTS),
            reason=reason_of(server),
            stderr=last_stderr.get(name, ""),
            is_current=name == current,
            position=position,
            view=server,
        )


def recorded_lines(
    connections: Iterable[ConnectionInfo], counts: Mapping[str, CallCounts], last_stderr: Mapping[str, str]
) -> Iterator[ServerLine]:
    """Yield the lines of the servers of a capture, by name."""
    newest_connections: dict[str, ConnectionInfo] = {}
    for info in connections:
        previous = newest_connections.get(info.server)
        if previous is None or info.opened >= previous.opened:
            newest_connections[info.server] = info
    for position, name in enumerate(sorted(newest_connections)):
        info, server_counts = newest_connections[name], counts.get(name, NO_COUNTS)
        yield ServerLine(
            name,
            RECORDED,
            info.transport,
            revision=info.revision,
            clients=server_counts.peers,
            counts=server_counts,
            stderr=last_stderr.get(name, ""),
            position=position,
        )


def _revision(server: ServerView, clients: Sequence[ClientView]) -> str:
    """Return the revision that the desk uses with a server, or "" if it is unknown."""
    if server.upstream is not None:
        return server.upstream.revision
    return next((client.revision for client in clients if client.transport == "memory"), "")  # the desk
