"""Functions that read and write a server's key-value pairs and job records through a connection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection

MAX_ID = (1 << 63) - 1
"""Largest integer of SQLite."""


def fact(connection: Connection, key: str) -> str | None:
    """Return the value of a key, or None if the key does not exist."""
    row = connection.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def facts(connection: Connection, prefix: str) -> dict[str, str]:
    """Return the values of all keys with a prefix. The keys of the result do not contain the prefix."""
    rows = connection.execute(
        "SELECT key, value FROM facts WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
    )
    return {key[len(prefix) :]: value for key, value in rows}


def keep_newest(connection: Connection, prefix: str, field: str, max_keys: int) -> None:
    """Delete keys with a prefix. Keep the `max_keys` keys whose JSON values have the greatest `field`."""
    prefix_condition = "substr(key, 1, ?) = ?"
    newest_keys = f"SELECT key FROM facts WHERE {prefix_condition} "
    newest_keys += "ORDER BY json_extract(value, ?) DESC LIMIT ?"
    connection.execute(
        f"DELETE FROM facts WHERE {prefix_condition} AND key NOT IN ({newest_keys})",
        (len(prefix), prefix, len(prefix), prefix, f"$.{field}", max_keys),
    )


def set_fact(connection: Connection, key: str, value: str | None) -> None:
    """Set the value of a key, or delete the key if `value` is None."""
    if value is None:
        connection.execute("DELETE FROM facts WHERE key = ?", (key,))
    else:
        connection.execute(
            "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", (key, value)
        )


def update_jobs(
    connection: Connection, rows: Iterable[tuple[str, str, float, bytes]], deleted_ids: Iterable[str]
) -> None:
    """Store job records, and delete the records with `deleted_ids`. A row consists of the id, the core,
    the start in Unix seconds and the encoded record of a job.
    """
    sql = "INSERT INTO jobs VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET core = excluded.core, "
    connection.executemany(sql + "record = excluded.record", rows)
    connection.executemany("DELETE FROM jobs WHERE id = ?", ((identifier,) for identifier in deleted_ids))


def one_job(connection: Connection, identifier: str) -> tuple[str, str, bytes] | None:
    """Return the id, core and record of a job, or None if the job is unknown."""
    row = connection.execute("SELECT id, core, record FROM jobs WHERE id = ?", (identifier,)).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def all_jobs(connection: Connection) -> list[tuple[str, str, bytes]]:
    """Return the id, core and record of every job, oldest first."""
    return list(connection.execute("SELECT id, core, record FROM jobs ORDER BY created"))
