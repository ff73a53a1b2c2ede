"""State of a server in the engine, with the interface of the state file.

The state is an SQLite database of only some kilobytes. The engine stores the database as one value with a
version number. A function runs on a copy in memory. If the version in the engine is still the same
afterwards, the changed copy is stored. Otherwise the function runs again on the newer version. Functions that
were written for the state file therefore also work here. Each runs as one transaction among all replicas.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.event_bus import ANNOUNCE, EventBus
from mcpdesk.storage.database import MIGRATIONS, Work

T = TypeVar("T")

MAX_BYTES = 16 << 20
"""Maximum size in bytes of the state of one server."""
MAX_ATTEMPTS = 50
"""Maximum number of attempts to change a state that other replicas change at the same time."""
PAGE_BYTES = 1024
WRITTEN_TTL_S = 600
"""Seconds for which the engine stores the id of a replica's last write.

This is much longer than the time until a script whose reply was lost runs again.
"""
STATE_CHANGED = "state"
"""Kind of the events that announce a changed state."""
STORE = f"""
local version = redis.call('HGET', KEYS[1], 'version') or '0'
local written, stored = unpack(redis.call('HMGET', KEYS[3], 'written', 'version'))
if written == ARGV[3] then return stored == version and tonumber(stored) or 0 end
if version ~= ARGV[1] then return -1 end
redis.call('HSET', KEYS[1], 'version', version + 1, 'data', ARGV[2])
redis.call('HSET', KEYS[3], 'written', ARGV[3], 'version', version + 1)
redis.call('EXPIRE', KEYS[3], {WRITTEN_TTL_S})
{ANNOUNCE}
return version + 1
"""
"""Script that writes a new version if its base version is still current.

It returns the number of the new version, or -1 if the base version is outdated. The third key stores the last
write of this `EngineDatabase`. If the reply to a write was lost, the script runs again and finds the write
under this key. It then returns the version of that write, or 0 if other replicas have written since.
"""
LOAD = """
local version = redis.call('HGET', KEYS[1], 'version') or '0'
if version == ARGV[1] then return {tonumber(version), false} end
return {tonumber(version), redis.call('HGET', KEYS[1], 'data') or ''}
"""
"""Script that returns the current version number, and the data unless the caller already has this version."""


class EngineDatabase:
    """State of one server, shared by all replicas. Used on the loop of its engine."""

    def __init__(
        self,
        engine: Engine,
        server: str,
        bus: EventBus | None = None,
        migrations: Sequence[str] = MIGRATIONS,
    ) -> None:
        """Create the database. Each change is announced on `bus` by an event of the kind `STATE_CHANGED`."""
        self._engine = engine
        self._key = engine.key("state", server)
        self._written_key = engine.key("state-writer", os.urandom(8).hex())
        self.label = f"the state of {server} in {engine.display_url}"
        self._bus = bus or EventBus(engine, "")
        self._change_event = self._bus.arguments(STATE_CHANGED, server=server)
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        """Version of the copy in memory, or -1 if the version is unknown."""
        self._lock = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="state")
        self._is_closed = False

    async def run(self, work: Work[T]) -> T:
        """Run `work(connection)` as one transaction. Return the result after the changes are stored.

        The changes of `work` are stored at most once, although `work` may run several times. After
        EngineUnavailable, the changes may or may not be stored. Raises: StorageError, including
        EngineUnavailable; exceptions of `work`.
        """
        if self._is_closed:
            raise self._closed_error()
        # If the caller is cancelled, the work continues, so that a load or store is never interrupted.
        task = asyncio.create_task(self._run(work))
        task.add_done_callback(_retrieve_exception)
        return await asyncio.shield(task)

    def close(self) -> None:
        """Discard the copy in memory. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._thread.submit(self._discard_copy)
            self._thread.shutdown()

    async def _run(self, work: Work[T]) -> T:
        loop = asyncio.get_running_loop()
        async with self._lock:
            for _ in range(MAX_ATTEMPTS):
                version, data = await self._engine.script(LOAD, [self._key], [self._version])
                try:
                    transaction = loop.run_in_executor(self._thread, self._transact, version, data, work)
                except RuntimeError:  # `close` was called while the engine was queried
                    raise self._closed_error() from None
                result, image = await transaction
                if image is None:
                    return result
                if await self._store(version, image):
                    return result
        raise StorageError(f"{self.label} is being changed by other replicas: try again")

    def _closed_error(self) -> StorageError:
        return StorageError(f"{self.label} is closed: the server stops")

    async def _store(self, version: int, image: bytes) -> bool:
        """Store the changed database, unless the engine has a newer version than `version`.

        Return True if it was stored. Raises: StorageError if it is too large.
        """
        if len(image) > MAX_BYTES:
            self._version = -1
            raise StorageError(f"{self.label} would be {len(image)} bytes; at most {MAX_BYTES} are kept")
        self._version = -1  # the version is unknown until the engine has answered
        arguments = [version, image, os.urandom(12).hex(), *self._change_event]
        keys = [self._key, self._bus.key, self._written_key]
        stored_version = await self._engine.script(STORE, keys, arguments)
        if stored_version < 0:
            return False
        self._version = stored_version or -1
        return True

    def _transact(self, version: int, data: bytes | None, work: Work[T]) -> tuple[T, bytes | None]:
        """Run `work` as a transaction on `version` of the database. Runs on the thread of the copy.

        `data` is the database, or None if the copy in memory already has this version. Return the result of
        `work`, and the changed database, or None if it did not change.
        """
        if version != self._version or self._connection is None:
            self._open(data or b"")
            self._version = version
        connection = self._connection
        assert connection is not None
        changes_before = connection.total_changes
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                result = work(connection)
        except sqlite3.Error as error:
            raise StorageError(f"{self.label} cannot be used: {error}") from error
        is_changed = connection.total_changes != changes_before
        return result, connection.serialize() if is_changed else None

    def _open(self, data: bytes) -> None:
        """Replace the copy in memory with a stored database. Raises: StorageError."""
        self._discard_copy()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            if data:
                connection.deserialize(data)
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
        except sqlite3.Error as error:
            connection.close()
            raise StorageError(f"{self.label} cannot be read: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(self._migrations):
            raise StorageError(f"{self.label} was written by a newer mcpdesk: update this replica")
        for script in self._migrations[version:]:
            connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {len(self._migrations)}")

    def _discard_copy(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task whose caller was cancelled, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
