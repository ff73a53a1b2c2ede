"""Single values of a server, by key."""

from __future__ import annotations

from sqlite3 import Connection

MOST_ID = (1 << 63) - 1
"""What an SQLite integer holds."""


def fact(connection: Connection, key: str) -> str | None:
    """The value kept under a key; None when there is none."""
    row = connection.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def keep(connection: Connection, key: str, value: str | None) -> None:
    """Keep a value under a key; None forgets it."""
    if value is None:
        connection.execute("DELETE FROM facts WHERE key = ?", (key,))
    else:
        connection.execute(
            "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (key, value)
        )
