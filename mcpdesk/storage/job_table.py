"""Records of jobs: what is known of one without the process that runs it, and where such records lie.

A job belongs to one holder at a time, a process or a replica. Its fencing number grows whenever another
holder takes it over, and what an earlier one writes afterwards is refused.
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
"""The fencing number of a job with its first holder."""


class ErrorRecord(Struct, frozen=True):
    """The error a job came to."""

    code: int
    message: str
    data: Any = None


class FileRecord(Struct, frozen=True):
    """A file a job made."""

    name: str
    path: str
    size: int
    stamp: tuple[int, int, int, int]
    is_output: bool = False


class JobRecord(Struct, frozen=True, omit_defaults=True):
    """Everything about a job. Times are Unix seconds."""

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
    """Whether it is a task of the protocol, and no asynchronous call of the gateway."""
    fence: int = FIRST_FENCE
    """Grows with every holder."""
    request: bytes = b""
    """What it takes to run it again; empty: it is not repeated."""
    asked: bytes = b""
    """What a task asks its client, encoded."""


class JobRow(Struct, frozen=True):
    """A record and whose it is."""

    id: str
    holder: str
    record: JobRecord

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.record.status.is_final


class JobTable(Protocol):
    """The records of one server's jobs, as one holder uses them. Everything raises StorageError."""

    async def write(self, rows: Sequence[JobRow], gone: Collection[str]) -> set[str]:
        """Write records of this holder and remove others. Returns the ids that are another holder's now.

        A record whose state is final is not made an unfinished one again.
        """

    async def known(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        """The records of these jobs; None for one that there is none of."""

    async def rows(self, owner: str) -> list[JobRow]:
        """The records of an owner, oldest first."""

    async def claim(self) -> list[JobRow]:
        """Take over unfinished jobs of holders that have ended; each is returned to one holder only."""


class FileJobTable:
    """Records in the state file of a server."""

    def __init__(self, data: StateData, holder: str, is_running: Callable[[str], bool]) -> None:
        """`is_running` says whether a holder still lives."""
        self._data, self._holder, self._is_running = data, holder, is_running

    async def write(self, rows: Sequence[JobRow], gone: Collection[str]) -> set[str]:
        """As `JobTable` has it."""

        def work(connection: Connection) -> set[str]:
            known = {row.id: _read(facts.one_job(connection, row.id)) for row in rows}
            refused = {row.id for row in rows if _is_behind(row, known[row.id])}
            fresh = [row for row in rows if row.id not in refused and not _is_late(row, known[row.id])]
            facts.update_jobs(connection, map(_packed, fresh), gone)
            return refused

        return await self._data.run(work)

    async def known(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        """As `JobTable` has it."""
        return await self._data.run(
            lambda connection: [_read(facts.one_job(connection, each)) for each in identifiers]
        )

    async def rows(self, owner: str) -> list[JobRow]:
        """As `JobTable` has it."""
        return [row for row in await self._all() if row.record.owner == owner]

    async def claim(self) -> list[JobRow]:
        """As `JobTable` has it."""

        def work(connection: Connection) -> list[JobRow]:
            found = filter(None, map(_read, facts.all_jobs(connection)))
            claimed = [
                JobRow(row.id, self._holder, replace(row.record, fence=row.record.fence + 1))
                for row in found
                if not row.is_over and self._is_left(row.holder)
            ]
            facts.update_jobs(connection, map(_packed, claimed), ())
            return claimed

        return await self._data.run(work)

    async def left(self) -> list[JobRow]:
        """Finished jobs of holders that have ended, and all of an earlier core of this process, oldest first.

        Records nobody can read are removed.
        """

        def work(connection: Connection) -> list[JobRow]:
            rows = {each[0]: _read(each) for each in facts.all_jobs(connection)}
            facts.update_jobs(connection, (), [key for key, row in rows.items() if row is None])
            found = [row for row in rows.values() if row is not None]
            return [
                row
                for row in found
                if row.holder == self._holder or (row.is_over and self._is_left(row.holder))
            ]

        return await self._data.run(work)

    async def _all(self) -> list[JobRow]:
        return [row for each in await self._data.run(facts.all_jobs) if (row := _read(each)) is not None]

    def _is_left(self, holder: str) -> bool:
        return holder != self._holder and not self._is_running(holder)


def encoded(record: JobRecord) -> bytes:
    """A record as it is kept."""
    try:
        return msgspec.msgpack.encode(record)
    except (TypeError, ValueError, OverflowError):  # the data of an error may be anything hosted code has
        error = record.error
        assert error is not None
        return msgspec.msgpack.encode(replace(record, error=ErrorRecord(error.code, error.message)))


def decoded(record: bytes) -> JobRecord | None:
    """A record that was kept; None for one of another version."""
    try:
        return msgspec.msgpack.decode(record, type=JobRecord)
    except msgspec.MsgspecError:
        return None


def _packed(row: JobRow) -> tuple[str, str, float, bytes]:
    return row.id, row.holder, row.record.created, encoded(row.record)


def _read(found: tuple[str, str, bytes] | None) -> JobRow | None:
    record = None if found is None else decoded(found[2])
    return None if found is None or record is None else JobRow(found[0], found[1], record)


def _is_behind(row: JobRow, known: JobRow | None) -> bool:
    """Whether another holder has taken over what a row is of."""
    if known is None:
        return False
    theirs, ours = known.record.fence, row.record.fence
    return theirs > ours or (theirs == ours and known.holder != row.holder)


def _is_late(row: JobRow, known: JobRow | None) -> bool:
    """Whether a row says that something runs whose end is known."""
    return known is not None and known.is_over and not row.is_over and known.record.fence == row.record.fence
