"""Job records, and the tables that store them.

A record describes a job independently of the process that runs it. The process that runs a job is its holder.
A job has one holder at a time. When another holder takes over the job, the fencing number of the job
increases, and later writes of the previous holder are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage import facts

if TYPE_CHECKING:
    from sqlite3 import Connection

    from mcpdesk.storage.database import StateData


FIRST_FENCE = 1
"""Fencing number of a job with its first holder."""


class ErrorRecord(Struct, frozen=True):
    """Error of a failed job."""

    code: int
    message: str
    data: Any = None


class FileRecord(Struct, frozen=True):
    """File that a job produced."""

    name: str
    path: str
    size: int
    stamp: tuple[int, int, int, int]
    is_output: bool = False


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """All data of a job. Times are Unix seconds."""

    owner: str
    tool: str
    peer: str
    session: str
    created: float
    updated: float
    started: float | None
    ttl_s: float | None
    status: TaskStatus
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    progress: tuple[float, float | None, str] | None = None
    files: tuple[FileRecord, ...] = ()
    result: bytes = b""
    error: ErrorRecord | None = None
    is_task: bool = False
    """True for an MCP task, False for an asynchronous call of the gateway."""
    fence: int = FIRST_FENCE
    """Fencing number. Increases with every new holder."""
    request: bytes = b""
    """Data needed to run the job again, or no bytes if the job must not run again."""
    asked: bytes = b""
    """Encoded questions of a task to its client."""


class JobRow(Struct, frozen=True):
    """A record with its id and holder."""

    id: str
    holder: str
    record: JobRecord

    @property
    def is_over(self) -> bool:
        """True if the job has ended."""
        return self.record.status.is_final


class JobTable(Protocol):
    """Job records of one server, for use by one holder. Every method may raise StorageError."""

    async def write(self, rows: Sequence[JobRow], deleted: Collection[str]) -> set[str]:
        """Write records of this holder, and delete the records whose ids are in `deleted`. Return the ids of
        the jobs that another holder has taken over.

        A record with a final status is never replaced by an unfinished record.
        """

    async def find(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        """Return the records of these jobs, with None for unknown ones."""

    async def rows(self, owner: str) -> list[JobRow]:
        """Return the records of an owner, oldest first."""

    async def claim(self) -> list[JobRow]:
        """Take over unfinished jobs of holders that have ended. No job is taken over by two holders."""


class FileJobTable:
    """Records in the state file of a server."""

    def __init__(self, data: StateData, holder: str, is_running: Callable[[str], bool]) -> None:
        """Create a table. `is_running` returns True if a holder is alive."""
        self._data, self._holder, self._is_running = data, holder, is_running

    async def write(self, rows: Sequence[JobRow], deleted: Collection[str]) -> set[str]:
        """Implements `JobTable.write`."""

        def work(connection: Connection) -> set[str]:
            stored_rows = {row.id: _job_row(facts.one_job(connection, row.id)) for row in rows}
            taken_over_ids = {row.id for row in rows if _is_taken_over(row, stored_rows[row.id])}
            accepted_rows = [
                row
                for row in rows
                if row.id not in taken_over_ids and not _is_outdated(row, stored_rows[row.id])
            ]
            facts.update_jobs(connection, map(_database_row, accepted_rows), deleted)
            return taken_over_ids

        return await self._data.run(work)

    async def find(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        """Implements `JobTable.find`."""

        def work(connection: Connection) -> list[JobRow | None]:
            return [_job_row(facts.one_job(connection, identifier)) for identifier in identifiers]

        return await self._data.run(work)

    async def rows(self, owner: str) -> list[JobRow]:
        """Implements `JobTable.rows`."""
        return [row for row in await self._all() if row.record.owner == owner]

    async def claim(self) -> list[JobRow]:
        """Implements `JobTable.claim`."""

        def work(connection: Connection) -> list[JobRow]:
            rows = filter(None, map(_job_row, facts.all_jobs(connection)))
            claimed_rows = [
                JobRow(row.id, self._holder, replace(row.record, fence=row.record.fence + 1))
                for row in rows
                if not row.is_over and self._is_orphaned(row)
            ]
            facts.update_jobs(connection, map(_database_row, claimed_rows), ())
            return claimed_rows

        return await self._data.run(work)

    async def restorable(self) -> list[JobRow]:
        """Return the jobs that this holder can restore, oldest first: the finished jobs of holders that have
        ended, and all its own jobs.

        Its own jobs were created by a core that ran earlier in this process. Unreadable records are deleted.
        """

        def work(connection: Connection) -> list[JobRow]:
            rows = {database_row[0]: _job_row(database_row) for database_row in facts.all_jobs(connection)}
            unreadable_ids = [identifier for identifier, row in rows.items() if row is None]
            facts.update_jobs(connection, (), unreadable_ids)
            return [
                row
                for row in rows.values()
                if row is not None
                and (row.holder == self._holder or (row.is_over and self._is_orphaned(row)))
            ]

        return await self._data.run(work)

    async def _all(self) -> list[JobRow]:
        """Return all readable records, oldest first."""
        return list(filter(None, map(_job_row, await self._data.run(facts.all_jobs))))

    def _is_orphaned(self, row: JobRow) -> bool:
        """Return True if the job belongs to another holder, and that holder has ended."""
        return row.holder != self._holder and not self._is_running(row.holder)


def encoded(record: JobRecord) -> bytes:
    """Return the stored form of a record."""
    try:
        return msgspec.msgpack.encode(record)
    except (TypeError, ValueError, OverflowError):  # `data` of an error may be any object of hosted code
        error = record.error
        assert error is not None
        return msgspec.msgpack.encode(replace(record, error=ErrorRecord(error.code, error.message)))


def decoded(record: bytes) -> JobRecord | None:
    """Return the record in stored bytes, or None if another version wrote it."""
    try:
        return msgspec.msgpack.decode(record, type=JobRecord)
    except msgspec.MsgspecError:
        return None


def _database_row(row: JobRow) -> tuple[str, str, float, bytes]:
    """Return the arguments that `facts.update_jobs` expects for a record."""
    return row.id, row.holder, row.record.created, encoded(row.record)


def _job_row(database_row: tuple[str, str, bytes] | None) -> JobRow | None:
    """Return a record of the database, or None if it does not exist or is unreadable."""
    if database_row is None:
        return None
    identifier, holder, data = database_row
    record = decoded(data)
    return None if record is None else JobRow(identifier, holder, record)


def _is_taken_over(row: JobRow, stored: JobRow | None) -> bool:
    """Return True if another holder has taken over the job of a row."""
    if stored is None:
        return False
    stored_fence, own_fence = stored.record.fence, row.record.fence
    return stored_fence > own_fence or (stored_fence == own_fence and stored.holder != row.holder)


def _is_outdated(row: JobRow, stored: JobRow | None) -> bool:
    """Return True if a row is unfinished, but its holder has already stored the end of the job."""
    if stored is None or stored.record.fence != row.record.fence:
        return False
    return stored.is_over and not row.is_over
