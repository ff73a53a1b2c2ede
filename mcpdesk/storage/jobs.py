"""Records of asynchronous calls: functions of a connection, within a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection


def save(connection: Connection, rows: Iterable[tuple[str, str, float, bytes]]) -> None:
    """Keep calls: id, the core they belong to, when they were begun, and an encoded record."""
    sql = "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET core = excluded.core, "
    connection.executemany(sql + "record = excluded.record", rows)


def forget(connection: Connection, ids: Iterable[str]) -> None:
    """Remove calls."""
    connection.executemany("DELETE FROM jobs WHERE id = ?", ((each,) for each in ids))


def everything(connection: Connection) -> list[tuple[str, str, bytes]]:
    """Id, core and record of every call, oldest first."""
    return list(connection.execute("SELECT id, core, record FROM jobs ORDER BY created"))
