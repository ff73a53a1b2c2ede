"""Storage of standing approvals and chosen policies."""

from __future__ import annotations

from sqlite3 import Connection

from mcpdesk.storage.approvals import Grant, grant, grants, is_granted, policies, revoke, set_policy


def test_a_grant_is_of_one_tool_and_one_peer(connection: Connection) -> None:
    grant(connection, "Bash", "client:cursor 1", 10.0)
    assert is_granted(connection, "Bash", "client:cursor 1")
    assert not is_granted(connection, "Bash", "client:cursor 2")
    assert not is_granted(connection, "ReadImage", "client:cursor 1")


def test_grants_are_listed_newest_first_and_keep_their_time(connection: Connection) -> None:
    grant(connection, "Bash", "a", 10.0)
    grant(connection, "Bash", "b", 20.0)
    assert grant(connection, "Bash", "a", 30.0) == (Grant("Bash", "b", 20.0), Grant("Bash", "a", 10.0))


def test_what_is_revoked_is_gone(connection: Connection) -> None:
    grant(connection, "Bash", "a", 10.0)
    assert revoke(connection, "Bash", "a") == ()
    assert revoke(connection, "Bash", "nobody") == grants(connection) == ()


def test_policies_are_kept_one_by_one(connection: Connection) -> None:
    assert policies(connection) == {}
    set_policy(connection, "Bash", "deny")
    set_policy(connection, "ReadImage", "ask")
    set_policy(connection, "Bash", None)
    assert policies(connection) == {"ReadImage": "ask"}
    set_policy(connection, "ReadImage", None)
    assert policies(connection) == {}
