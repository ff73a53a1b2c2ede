"""HTTP sessions on disk, so that clients can continue after a restart.

One SQLite file in the state folder has the sessions of all processes. Each session has a holder, the process
that serves it. Each process locks its own lock file while it runs. If a holder has no lock, the holder has
ended. Another process then takes over a session of the holder when it receives a request of the client. The
file contains hashes of session ids and owners, not the values themselves.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from mcpdesk.errors import StorageError
from mcpdesk.portable_files import NO_FOLLOW, OPEN_FLAGS, lock, try_lock
from mcpdesk.protocol.handshake import SessionState

if TYPE_CHECKING:
    from sqlite3 import Connection

FOLDER = "sessions"
"""Name of the folder with the files, in the state folder."""
FILE_NAME = "sessions.sqlite"
WRITE_TIMEOUT_S = 5.0
"""Seconds to wait for another process before a write fails."""
READ_TIMEOUT_S = 1.0
"""Seconds to wait for another process before a read fails."""
MAX_STATE_BYTES = 64 * 1024
"""Maximum size of a session's state in bytes. Larger states are not stored."""
SCHEMA = """
    CREATE TABLE IF NOT EXISTS sessions (
        id TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        used REAL NOT NULL,
        server TEXT NOT NULL,
        owner TEXT NOT NULL,
        restarts INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT
"""
T = TypeVar("T")

log = logging.getLogger(__name__)


class SessionRecord(Struct, frozen=True):
    """One session as stored on disk."""

    id: str
    """Hash of the session's id."""
    used: float
    """Unix time of the last use in seconds."""
    server: str
    """Location and mode of the server."""
    owner: str
    """Owner in the sealed form that `seal` returns."""
    restarts: int
    """Number of earlier processes that served the session."""
    state: SessionState


def hash_id(identifier: str) -> str:
    """Return the hash that stands for a session id on disk."""
    return hashlib.sha256(identifier.encode()).hexdigest()


def seal(identifier: str, owner: str, key: str) -> str:
    """Return a hash of the owner's identity and the API key. The hash decides who may use a session.

    The hash also covers the session id, which is not on disk, so keys cannot be guessed from the hash.
    """
    return hashlib.sha256("\0".join((identifier, owner, key)).encode("utf-8", "surrogatepass")).hexdigest()


class SessionRecords:
    """Sessions on disk of this process and of ended processes. May be used on any thread.

    Every method waits for the disk, so call it on a worker thread. A failed write is logged once and repeated
    with the next change.
    """

    def __init__(self, folder: Path, ttl_s: float) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._holder = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._lock_descriptor = -1
        """Descriptor of the lock file of this process, or -1."""
        self._connection: Connection | None = None
        self._pending: dict[str, SessionRecord | None] = {}
        """Changes that are not on disk, by hash of the id. None means that the session has ended."""
        self._is_closed = False
        self._is_failing = False
        """True after a failed transaction, which was logged."""
        self._lock = Lock()

    def write(self, records: Iterable[SessionRecord], ended: Iterable[str] = ()) -> None:
        """Write changed sessions, and delete ended ones. `ended` has the hashes of their ids."""
        with self._lock:
            if self._is_closed:
                return
            self._pending |= dict.fromkeys(ended) | {record.id: record for record in records}
            is_written = bool(self._pending) and self._run_transaction(self._write_pending)
            if is_written:
                self._pending.clear()

    def may_have(self, identifier: str, server: str, owners: Collection[str]) -> bool:
        """Return True if `claim` may find a session. Does not wait for writers.

        Raises: StorageError if another process keeps the file from being read.
        """
        import sqlite3

        path = self._folder / FILE_NAME
        if self._is_closed or not path.exists():
            return False
        try:
            # Opened each time, because another process may have replaced a damaged file.
            with closing(
                sqlite3.connect(f"{path.as_uri()}?mode=ro", timeout=READ_TIMEOUT_S, uri=True)
            ) as connection:
                query = "SELECT server, owner FROM sessions WHERE id = ?"
                row = connection.execute(query, (identifier,)).fetchone()
        except sqlite3.Error as error:
            if _is_busy(error):
                raise StorageError(f"{path} is held by another process") from error
            return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        return row is not None and row[0] == server and row[1] in owners

    def claim(self, identifier: str, server: str, owners: Collection[str]) -> SessionRecord | None:
        """Take over the session of an ended process, given the hash of its id.

        Return None if the session belongs to another server, is sealed for none of `owners`, or has expired.
        Raises: StorageError while another process locks the file.
        """

        def update(connection: Connection) -> SessionRecord | None:
            row = connection.execute("SELECT * FROM sessions WHERE id = ?", (identifier,)).fetchone()
            if row is None:
                return None
            _, holder, used, stored_server, owner, restarts, state = row
            is_claimable = stored_server == server and owner in owners and used >= time.time() - self._ttl_s
            if not is_claimable or self._is_alive(holder):
                return None
            connection.execute(
                "UPDATE sessions SET holder = ?, restarts = restarts + 1 WHERE id = ?",
                (self._holder, identifier),
            )
            state = msgspec.json.decode(state, type=SessionState)
            return SessionRecord(identifier, used, server, owner, restarts + 1, state)

        with self._lock:
            if self._is_closed or not (self._folder / FILE_NAME).exists():
                return None
            return self._run_transaction(update, must_succeed=True)

    def close(self, records: Iterable[SessionRecord], ended: Iterable[str]) -> None:
        """Write the last changes, and release the sessions for the next process. Later writes are ignored."""
        self.write(records, ended)
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if self._lock_descriptor >= 0:
                self._lock_file(self._holder).unlink(missing_ok=True)
                os.close(self._lock_descriptor)
                self._lock_descriptor = -1

    def _write_pending(self, connection: Connection) -> bool:
        """Write the pending changes, and return True."""
        for identifier, record in self._pending.items():
            state = None if record is None else _encode(record.state)
            if record is None or state is None:
                key = (identifier, self._holder)
                connection.execute("DELETE FROM sessions WHERE id = ? AND holder = ?", key)
            else:
                row = (identifier, self._holder, *msgspec.structs.astuple(record)[1:-1], state)
                connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return True

    def _run_transaction(self, work: Callable[[Connection], T], must_succeed: bool = False) -> T | None:
        """Run `work` in one transaction. If it fails, log the error and return None.

        If `must_succeed` is True and another process locks the file, raise StorageError instead.
        """
        import sqlite3

        try:
            self._connection = self._connection or self._open_database()
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                result = work(self._connection)
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            if not self._is_failing:
                log.warning("sessions of HTTP clients cannot be stored for a restart: %s", error)
            self._is_failing = True
            if getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                self._discard()
            if must_succeed and _is_busy(error):
                raise StorageError(f"{self._folder / FILE_NAME} is held by another process") from error
            return None
        self._is_failing = False
        return result

    def _open_database(self) -> Connection:
        """Lock the lock file of this process, open the database, and delete expired sessions."""
        import sqlite3

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._lock_descriptor < 0:
            self._lock_descriptor = os.open(
                self._lock_file(self._holder), os.O_CREAT | os.O_RDWR | OPEN_FLAGS, 0o600
            )
            lock(self._lock_descriptor)
        os.close(os.open(self._folder / FILE_NAME, os.O_CREAT | os.O_RDWR | OPEN_FLAGS, 0o600))
        connection = sqlite3.connect(
            self._folder / FILE_NAME, timeout=WRITE_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # Data is lost only if the system crashes, not if the process is killed.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(SCHEMA)
            connection.execute("DELETE FROM sessions WHERE used < ?", (time.time() - self._ttl_s,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _discard(self) -> None:
        """Delete a damaged file. The next change creates a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for suffix in ("", "-wal", "-shm"):
            (self._folder / f"{FILE_NAME}{suffix}").unlink(missing_ok=True)

    def _is_alive(self, holder: str) -> bool:
        """Return True if a process still has its lock. The lock file of an ended process is deleted."""
        path = self._lock_file(holder)
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDWR | OPEN_FLAGS | NO_FOLLOW)
            try:
                if not try_lock(descriptor):
                    return True
                with suppress(PermissionError):  # Windows cannot delete an open file
                    path.unlink()
            finally:
                os.close(descriptor)
        return False

    def _lock_file(self, holder: str) -> Path:
        return self._folder / f"{holder}.lock"


def _is_busy(error: Exception) -> bool:
    import sqlite3

    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _encode(state: SessionState) -> bytes | None:
    """Encode a state as JSON. Return None if it is too large, or if JSON cannot represent it."""
    try:
        data = msgspec.json.encode(state)
    except (ValueError, RecursionError):
        return None
    return data if len(data) <= MAX_STATE_BYTES else None
