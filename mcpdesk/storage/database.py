"""SQLite state file with a thread of its own. Safe against concurrent processes and crashes.

Work is a function of the connection. It runs inside one transaction: if `run` returns, all changes are
committed; if `run` raises an error, no change is committed. A damaged file is renamed, and a new one is
created. A file that a newer version wrote, or that cannot be opened, is not changed.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from mcpdesk.errors import StorageError
from mcpdesk.portable_files import OPEN_FLAGS, lock

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
"""SQL scripts. `PRAGMA user_version` of a file is the number of applied scripts. Times are Unix seconds."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

BUSY_TIMEOUT_S = 10.0
"""Maximum seconds that another process may lock the file before work fails."""
BUSY_PAUSE_S = 0.01
"""Seconds between two attempts to switch to WAL mode."""
CHECKED_BYTES = 64 << 20
"""Only files of at most this size are checked for damage when they are opened. In larger files, SQLite finds
damage later.
"""
DAMAGE_CODES = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
"""Error codes of SQLite for a damaged file."""
SIDE_FILES = ("-wal", "-shm", "")
"""Suffixes of the files of a database. The main file is moved last. As soon as its name is free, another
process may create a new database, and the journal of the new database must not be moved."""
PRIVATE_MASK = 0o077
"""File mode bits to clear, because other users must not read the data of a person's tools."""


class StateData(Protocol):
    """State of a server, in a file or in the engine."""

    @property
    def label(self) -> str:
        """Name of the state in error messages."""

    async def run(self, work: Work[T]) -> T:
        """Run `work(connection)` as one transaction and return its result. Raises: StorageError."""

    def close(self) -> None:
        """Finish running work and release resources."""


class _Damaged(sqlite3.DatabaseError):
    """The file is damaged, although SQLite itself reports no error."""


class Database:
    """State file, opened, created and migrated at the first use. `run` may be called on any loop."""

    def __init__(
        self,
        path: Path,
        migrations: Sequence[str] = MIGRATIONS,
        report: Callable[[str], object] = lambda text: None,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """`report` is called when a damaged file was renamed, and `on_change` after each change. Both are
        called on the database's thread.
        """
        self.path = path
        self._on_change = on_change
        self._migrations = migrations
        self._report = report
        self._inode = 0
        """Inode of the opened file."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    @property
    def label(self) -> str:
        """Path of the file, for error messages."""
        return str(self.path)

    async def run(self, work: Work[T]) -> T:
        """Run `work(connection)` as one transaction and return its result once it is committed.

        Cancelling does not undo work that has started.

        Raises: StorageError that names the file; exceptions of `work`.
        """
        try:
            future = self._thread.submit(self._transact, work)
        except RuntimeError:  # `close` was called, perhaps on another thread
            raise StorageError(f"{self.path} is closed: the server stops") from None
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish running work and close the file. May be called twice, or if the file was never opened."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._close)
            self._thread.shutdown()

    def _transact(self, work: Work[T]) -> T:
        try:
            try:
                return self._attempt(work)
            except sqlite3.Error as error:
                if _is_damage(error):
                    self._rename_damaged(_reason(error))
                elif self._was_moved():
                    self._close_and_reset()
                else:
                    raise
                return self._attempt(work)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self.path} cannot be used: {_reason(error)}") from error

    def _attempt(self, work: Work[T]) -> T:
        connection = self._ensure_open()
        earlier_changes = connection.total_changes
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
        if connection.total_changes != earlier_changes:
            self._on_change()
        return result

    def _rename_damaged(self, reason: str) -> None:
        """Rename a damaged file, unless another process has done so already. Raises: OSError."""
        self._close_and_reset()
        with suppress(FileNotFoundError), self.path.open("rb") as damaged_file:
            # Other processes that found the damage wait for this lock, and then find a new file at the path.
            lock(damaged_file.fileno())
            inode = os.fstat(damaged_file.fileno()).st_ino
            if inode != self._inode or inode != self.path.stat().st_ino:
                return
            new_path = _unused_path(self.path)
            for suffix in SIDE_FILES:
                with suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{new_path}{suffix}")
            self._report(
                f"{self.path} is damaged ({reason}). It was moved to {new_path}, and a new one was created: "
                "tasks, plans, callbacks, approvals and jobs in the damaged file are no longer used"
            )

    def _ensure_open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite would create a file that other users can read. The journals get the mode of this file.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o666 & ~PRIVATE_MASK)
        status = os.fstat(descriptor)
        os.close(descriptor)
        self._inode = status.st_ino
        if not status.st_size and _size(f"{self.path}-wal"):
            # SQLite would delete the journal, which is the only remaining part of the data.
            raise _Damaged("the file is empty")
        connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        with ExitStack() as cleanup:
            cleanup.callback(connection.close)
            _enable_wal(connection)
            if status.st_size <= CHECKED_BYTES:
                _check(connection)
            # In WAL mode, committed data survives a killed process, but may be lost in a power failure.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
            cleanup.pop_all()
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(self._migrations):
                raise StorageError(
                    f"{self.path} was written by a newer mcpdesk and is not changed: update this one, "
                    "or use another folder with --state-dir"
                )
            for script in self._migrations[version:]:
                for statement in script.split(";\n"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _was_moved(self) -> bool:
        """Return True if another process has renamed the file. If it is renaming the file now, wait."""
        try:
            with self.path.open("rb") as file:
                lock(file.fileno())
                return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def _close_and_reset(self) -> None:
        """Close the file, so that the next use opens it again."""
        self._close()
        self._connection = None

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. Retry, because SQLite itself does not wait while another process does the same."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
        time.sleep(BUSY_PAUSE_S)


def _check(connection: sqlite3.Connection) -> None:
    """Check the consistency of the file. Raises: _Damaged."""
    (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if result != "ok":
        raise _Damaged(str(result).replace("\n", " "))


def _is_damage(error: sqlite3.Error) -> bool:
    """Return True if an error means that the file is damaged."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, _Damaged) or code & 0xFF in DAMAGE_CODES


def _size(path: str) -> int:
    """Return the size of a file in bytes, or 0 if the file does not exist."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _unused_path(path: Path) -> Path:
    """Return an unused path next to a file, such as `state.sqlite.damaged-2026-11-20T09-30-00`."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    suffixes = ("", *map("-{}".format, range(2, 1000)))
    candidates = (path.with_name(f"{path.name}.damaged-{stamp}{suffix}") for suffix in suffixes)
    return next(candidate for candidate in candidates if not candidate.exists())


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
