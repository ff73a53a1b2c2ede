"""The tables of a state file, step by step. A step that was released is never changed: add another one."""

from __future__ import annotations

MIGRATIONS = (
    """
    CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        created REAL NOT NULL,
        completed REAL
    ) STRICT;
    CREATE TABLE steps (
        task INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
        id INTEGER NOT NULL,
        text TEXT NOT NULL,
        created REAL NOT NULL,
        completed REAL,
        PRIMARY KEY (task, id)
    ) STRICT;
    CREATE TABLE callbacks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        message TEXT NOT NULL,
        delay_s REAL NOT NULL,
        repeat_count INTEGER NOT NULL,
        fired INTEGER NOT NULL DEFAULT 0,
        due REAL,
        peer TEXT NOT NULL,
        created REAL NOT NULL,
        last_fired REAL
    ) STRICT;
    CREATE TABLE approvals (
        tool TEXT NOT NULL,
        peer TEXT NOT NULL,
        granted REAL NOT NULL,
        PRIMARY KEY (tool, peer)
    ) STRICT;
    """,
    """
    CREATE TABLE jobs (
        id TEXT PRIMARY KEY,
        core TEXT NOT NULL,
        created REAL NOT NULL,
        record BLOB NOT NULL
    ) STRICT;
    ALTER TABLE callbacks ADD COLUMN told TEXT NOT NULL DEFAULT '{}';
    """,
    """
    ALTER TABLE callbacks ADD COLUMN core TEXT NOT NULL DEFAULT '';
    UPDATE callbacks SET told = '{"": ' || fired || '}';
    """,
)
"""SQL scripts; `PRAGMA user_version` of a file counts those it has had. Times are Unix seconds."""
