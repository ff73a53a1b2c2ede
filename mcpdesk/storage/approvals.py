"""Functions that read and write approvals and tool policies through a database connection."""

from __future__ import annotations

import json
from dataclasses import dataclass
from sqlite3 import Connection

from mcpdesk.storage.facts import fact, set_fact

POLICIES_KEY = "policies"
"""Key of the policies that were set at the desk: a JSON object with the policy of each tool."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Approval that lets a peer call a tool without asking again. `granted` is Unix time in seconds."""

    tool: str
    peer: str
    granted: float


def grants(connection: Connection) -> tuple[Grant, ...]:
    """Return all grants, newest first."""
    rows = connection.execute("SELECT tool, peer, granted FROM approvals ORDER BY granted DESC, tool, peer")
    return tuple(Grant(*row) for row in rows)


def is_granted(connection: Connection, tool: str, peer: str) -> bool:
    """Return True if a peer may call a tool."""
    sql = "SELECT 1 FROM approvals WHERE tool = ? AND peer = ?"
    return connection.execute(sql, (tool, peer)).fetchone() is not None


def grant(connection: Connection, tool: str, peer: str, now: float) -> tuple[Grant, ...]:
    """Allow a peer to call a tool, and return all grants. The time of an existing grant does not change."""
    connection.execute("INSERT INTO approvals VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (tool, peer, now))
    return grants(connection)


def revoke(connection: Connection, tool: str, peer: str) -> tuple[Grant, ...]:
    """Revoke a grant, and return the remaining ones."""
    connection.execute("DELETE FROM approvals WHERE tool = ? AND peer = ?", (tool, peer))
    return grants(connection)


def policies(connection: Connection) -> dict[str, str]:
    """Return the policies set at the desk, by tool."""
    policies_json = fact(connection, POLICIES_KEY)
    return {} if policies_json is None else dict(json.loads(policies_json))


def set_policy(connection: Connection, tool: str, policy: str | None) -> None:
    """Store the policy of a tool, or delete it if `policy` is None. Other tools are not changed."""
    policy_by_tool = policies(connection)
    policy_by_tool.pop(tool, None)
    if policy is not None:
        policy_by_tool[tool] = policy
    set_fact(connection, POLICIES_KEY, json.dumps(policy_by_tool) if policy_by_tool else None)
