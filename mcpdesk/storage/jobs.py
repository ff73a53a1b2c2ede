"""Records of asynchronous calls: functions of a connection, within a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from sqlite3 import Connection


def update(
    connection: Connection, rows: Iterable[tuple[str, str, float, bytes]], gone: Iterable[str]
) -> None:
    """Keep calls and remove others by id. A row is an id, its core, its begin in Unix seconds, its record."""
    sql = "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET core = excluded.core, "
    connection.executemany(sql + "record = excluded.record", rows)
    connection.executemany("DELETE FROM jobs WHERE id = ?", ((each,) for each in gone))


def everything(connection: Connection) -> list[tuple[str, str, bytes]]:
    """Id, core and record of every call, oldest first."""
    return list(connection.execute("SELECT id, core, record FROM jobs ORDER BY created"))
