"""Asynchronous calls of one server on disk, so that they are still known when the server starts again.

A call is written when it begins, when its turn comes and when it ends; nothing waits for the disk. Calls that
ran when their core ended are found failed, as interrupted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import ProtocolError, StorageError
from mcpdesk.jobs.downloads import ProducedFile
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding
from mcpdesk.jobs.process_table import is_running, process_mark
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage import facts

if TYPE_CHECKING:
    from mcpdesk.jobs.job import JobStore
    from mcpdesk.server.state.server_state import ServerState

RESULT_BYTES = 4 << 20
"""A larger result is not written; the call's other facts are."""
INTERRUPTED = "interrupted: the server ended while the job ran, and has started again since"


class _Error(Struct, frozen=True):
    code: int
    message: str
    data: Any = None


class _File(Struct, frozen=True):
    name: str
    path: str
    size: int
    stamp: tuple[int, int, int, int]


class _Record(Struct, frozen=True, omit_defaults=True):
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
    files: tuple[_File, ...] = ()
    result: bytes = b""
    error: _Error | None = None


class JobRecords:
    """The records of one server's calls. Used on the core's loop."""

    def __init__(self, state: ServerState, server: str, complain: Callable[[str], None]) -> None:
        """`complain` is called with the reason when a record cannot be written."""
        self._state, self._server, self._complain = state, server, complain
        self._core = process_mark(os.getpid())
        self._changed: dict[str, Job | None] = {}
        """Calls to be written, by id; None: to be removed."""
        self._writing_aio: asyncio.Task[None] | None = None

    def note(self, job: Job, is_forgotten: bool) -> None:
        """Write a call soon, or remove its record."""
        self._changed[job.id] = None if is_forgotten else job
        if self._writing_aio is None:
            self._writing_aio = asyncio.get_running_loop().create_task(self._write())

    async def close(self, running: Iterable[Job]) -> None:
        """The core stops: write what is left, and how far the calls came that still run."""
        for job in running:
            self.note(job, False)
        while self._writing_aio is not None:
            await asyncio.wait({self._writing_aio})

    async def recall(self, store: Callable[[], JobStore], now: float) -> None:
        """Take back the calls of cores that have ended. Raises: StorageError."""
        for identifier, core, encoded in await self._state.data.run(facts.all_jobs):
            if core != self._core and is_running(core):
                continue  # they are that process's own
            try:
                job = self._restored(identifier, msgspec.msgpack.decode(encoded, type=_Record))
            except msgspec.DecodeError:
                job = None
            if job is not None and not job.is_over:
                job.ending = JobEnding(error=ProtocolError(ErrorCode.INTERNAL_ERROR, INTERRUPTED))
                job.move(TaskStatus.FAILED, now, INTERRUPTED)
            is_kept = job is not None and store().restore(job)
            self._changed[identifier] = job if is_kept else None
        if self._changed:
            await self._write()

    def _restored(self, identifier: str, record: _Record) -> Job:
        error, feed = record.error, CallFeed()
        problem = None if error is None else ProtocolError(error.code, error.message, error.data)
        feed.stdout(record.stdout)
        feed.stderr(record.stderr)
        if record.progress is not None:
            feed.progress(*record.progress)
        return Job(
            identifier,
            record.status,
            record.created,
            record.updated,
            record.ttl_s,
            record.message,
            server=self._server,
            tool=record.tool,
            peer=record.peer,
            owner=record.owner,
            stop=lambda _: None,
            ending=JobEnding(record.result, problem),
            started=record.started,
            session=record.session,
            exit_code=record.exit_code,
            feed=feed,
            files=tuple(
                ProducedFile(each.name, Path(each.path), each.size, each.stamp) for each in record.files
            ),
        )

    async def _write(self) -> None:
        """Write what changed, and what changes meanwhile."""
        try:
            while self._changed:
                changed, self._changed = self._changed, {}
                rows = [
                    (job.id, self._core, job.created, _encoded(job))
                    for job in changed.values()
                    if job is not None
                ]
                gone = [identifier for identifier, job in changed.items() if job is None]
                await self._state.data.run(partial(facts.update_jobs, rows=rows, gone=gone))
        except StorageError as error:
            self._complain(f"jobs are not kept for a restart: {error}")
        finally:
            self._writing_aio = None


def _encoded(job: Job) -> bytes:
    try:
        return msgspec.msgpack.encode(_record(job))
    except (TypeError, ValueError, OverflowError):  # the data of an error may be anything hosted code has
        error = job.ending.error
        assert error is not None
        bare = replace(_record(job), error=_Error(int(error.code), error.message))
        return msgspec.msgpack.encode(bare)


def _record(job: Job) -> _Record:
    assert job.feed is not None
    stdout, stderr = job.feed.tails()
    result, error, latest = job.ending.result, job.ending.error, job.feed.latest
    return _Record(
        owner=job.owner,
        tool=job.tool,
        peer=job.peer,
        session=job.session,
        created=job.created,
        updated=job.updated,
        started=job.started,
        ttl_s=job.ttl_s,
        status=job.status,
        message=job.message,
        exit_code=job.exit_code,
        stdout=stdout,
        stderr=stderr,
        progress=None if latest is None else (latest.value, latest.total, latest.message),
        files=tuple(_File(each.name, str(each.path), each.size, each.stamp) for each in job.files),
        result=result if len(result) <= RESULT_BYTES else b"",
        error=None if error is None else _Error(int(error.code), error.message, error.data),
    )
