"""One SQLite file and the thread that owns it. Safe against other processes and a crash at any moment.

Work is a function of the connection. It runs inside one transaction: when `run` returns, what it wrote is
committed; when it raises, nothing of it was written.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from mcpdesk.errors import StorageError
from mcpdesk.storage.migrations import MIGRATIONS

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

PATIENCE_S = 10.0
"""How long another process may hold the file before work fails."""
BUSY_PAUSE_S = 0.01
MASK = 0o077
"""Nobody else may read what a person's tools noted down."""


class Database:
    """A state file. Opened, made and migrated at the first use; `run` may be called on any loop."""

    def __init__(self, path: Path, migrations: Sequence[str] = MIGRATIONS) -> None:
        self.path = path
        self._migrations = migrations
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    async def run(self, work: Work[T]) -> T:
        """Run `work(connection)` as one transaction and return what it returns, committed.

        Cancelling does not undo work that has begun.

        Raises: StorageError naming the file; whatever `work` raises.
        """
        if self._is_closed:
            raise StorageError(f"{self.path} is closed: the server stops")
        return await asyncio.wrap_future(self._thread.submit(self._transact, work))

    def close(self) -> None:
        """Finish what was begun and let go of the file. Harmless when done twice, or never opened."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._close)
            self._thread.shutdown()

    def _transact(self, work: Work[T]) -> T:
        try:
            connection = self._opened()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                return work(connection)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self.path} cannot be used: {_reason(error)}") from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made by us before SQLite does, which would let others read it; its journals take the file's mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666 & ~MASK))
        connection = sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None)
        with ExitStack() as unless_ready:
            unless_ready.callback(connection.close)
            _log_ahead(connection)
            # In WAL mode a killed process loses nothing that was committed; only a power cut may.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
            unless_ready.pop_all()
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            (done,) = connection.execute("PRAGMA user_version").fetchone()
            if done > len(self._migrations):
                raise StorageError(f"{self.path} was written by a newer mcpdesk: update this one")
            for script in self._migrations[done:]:
                for statement in script.split(";\n"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite itself does not wait for another process that is just doing the same."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
        time.sleep(BUSY_PAUSE_S)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
