"""Standing approvals and the policies chosen at the desk, as they are kept: functions of a connection."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection

from mcpdesk.storage.facts import fact, keep

POLICIES = "policies"


@dataclass(frozen=True, slots=True)
class Grant:
    """A peer that may call a tool without anybody being asked again. `granted` is Unix time in seconds."""

    tool: str
    peer: str
    granted: float


def grants(connection: Connection) -> tuple[Grant, ...]:
    """All of them, the newest first."""
    rows = connection.execute("SELECT tool, peer, granted FROM approvals ORDER BY granted DESC, tool, peer")
    return tuple(Grant(*row) for row in rows)


def is_granted(connection: Connection, tool: str, peer: str) -> bool:
    """Whether a peer may call a tool."""
    sql = "SELECT 1 FROM approvals WHERE tool = ? AND peer = ?"
    return connection.execute(sql, (tool, peer)).fetchone() is not None


def grant(connection: Connection, tool: str, peer: str, now: float) -> tuple[Grant, ...]:
    """Let a peer call a tool; returns all grants. One that was there already keeps its time."""
    connection.execute("INSERT INTO approvals VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (tool, peer, now))
    return grants(connection)


def revoke(connection: Connection, tool: str, peer: str) -> tuple[Grant, ...]:
    """Let it call no more; returns the grants that are left."""
    connection.execute("DELETE FROM approvals WHERE tool = ? AND peer = ?", (tool, peer))
    return grants(connection)


def policies(connection: Connection) -> dict[str, str]:
    """What was chosen at the desk, by tool."""
    kept = fact(connection, POLICIES)
    return {} if kept is None else dict(json.loads(kept))


def keep_policy(connection: Connection, tool: str, policy: str | None) -> None:
    """Keep what was chosen for a tool; None forgets it. Those of other tools stay, whoever chose them."""
    chosen = policies(connection)
    chosen.pop(tool, None)
    if policy is not None:
        chosen[tool] = policy
    keep(connection, POLICIES, json.dumps(chosen) if chosen else None)
