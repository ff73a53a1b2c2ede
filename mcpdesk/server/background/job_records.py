"""Stored jobs of one server, for its next start.

A job is written when it is created, started and finished. Nothing waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.errors import ProtocolError, StorageError
from mcpdesk.jobs.downloads import ProducedFile
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage.job_table import (
    ErrorRecord,
    FileRecord,
    JobRecord,
    JobRow,
    JobTable,
)

if TYPE_CHECKING:
    from mcpdesk.jobs.job import JobStore
    from mcpdesk.storage.job_table import FileJobTable

MAX_RESULT_BYTES = 4 << 20
"""Maximum size in bytes of a stored result. A larger result is left out."""
INTERRUPTED = "interrupted: the server ended while the job ran, and has started again since"


class JobRecords:
    """Stored jobs of one server. Used on the core's loop."""

    def __init__(
        self,
        table: JobTable,
        holder: str,
        server: str,
        store: Callable[[], JobStore],
        complain: Callable[[str], None],
    ) -> None:
        """`complain` is called with the reason if a job cannot be written."""
        self._table, self._holder, self._server = table, holder, server
        self._store, self._complain = store, complain
        self._changed_jobs: dict[str, Job | None] = {}
        """Jobs to write, by id. None means that the stored job must be deleted."""
        self._write_task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def update(self, job: Job, is_deleted: bool) -> None:
        """Write a job soon, or delete the stored job."""
        self._changed_jobs[job.id] = None if is_deleted else job
        self.write_soon()

    def write_soon(self) -> None:
        """Start writing if there are changes."""
        if self._changed_jobs and self._write_task is None:
            self._write_task = asyncio.get_running_loop().create_task(self._write())

    async def close(self, running: Iterable[Job]) -> None:
        """Write the pending changes and the progress of running jobs, because the core stops."""
        for job in running:
            self.update(job, False)
        while self._write_task is not None:
            await asyncio.wait({self._write_task})

    async def recall(self, table: FileJobTable, now: float) -> None:
        """Load the jobs of cores that have ended. Raises: StorageError."""
        for row in [*await table.restorable(), *await table.claim()]:
            job = self._job_of_row(row)
            if not job.is_over:
                interrupt(job, now, INTERRUPTED)
            is_kept = self._store().restore(job)
            if not is_kept or not row.is_over or row.holder != self._holder:
                self._changed_jobs[job.id] = job if is_kept else None
        if self._changed_jobs:
            await self._write()

    async def _write(self) -> None:
        """Write all changes, including those that arrive in the meantime."""
        try:
            while self._changed_jobs:
                jobs, self._changed_jobs = self._changed_jobs, {}
                try:
                    await self._write_now(jobs)
                except StorageError:
                    self._on_write_failure(jobs)
                    raise
        except StorageError as error:
            self._complain(f"jobs cannot be stored for a restart: {error}")
        finally:
            self._write_task = None

    async def _write_now(self, jobs: dict[str, Job | None]) -> None:
        async with self._lock:
            rows = [self._row(job) for job in jobs.values() if job is not None]
            deleted_ids = [identifier for identifier, job in jobs.items() if job is None]
            self._on_lost_jobs(await self._table.write(rows, deleted_ids))

    def _on_write_failure(self, jobs: dict[str, Job | None]) -> None:
        """Handle a failure to write these jobs."""

    def _on_lost_jobs(self, identifiers: set[str]) -> None:
        """Handle jobs that were not written, because other processes have taken them over."""

    def _row(self, job: Job) -> JobRow:
        return JobRow(job.id, self._holder, job_record(job))

    def _job_of_row(self, row: JobRow) -> Job:
        record = row.record
        error, feed = record.error, None if record.is_task else CallFeed()
        protocol_error = None if error is None else ProtocolError(error.code, error.message, error.data)
        if feed is not None:
            feed.stdout(record.stdout)
            feed.stderr(record.stderr)
            if record.progress is not None:
                feed.progress(*record.progress)
        return Job(
            row.id,
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
            ending=JobEnding(record.result, protocol_error),
            started=record.started,
            session=record.session,
            exit_code=record.exit_code,
            feed=feed,
            files=tuple(
                ProducedFile(each.name, Path(each.path), each.size, each.stamp, each.is_output)
                for each in record.files
            ),
            fence=record.fence,
            request=record.request,
            asked=record.asked,
        )


def interrupt(job: Job, now: float, reason: str) -> None:
    """End a job whose process has ended."""
    job.ending = JobEnding(error=ProtocolError(ErrorCode.INTERNAL_ERROR, reason))
    job.move(TaskStatus.FAILED, now, reason)


def job_record(job: Job, tail: int = 0) -> JobRecord:
    """Return the record of a job with the last `tail` characters of its output. 0 means the whole output."""
    feed = job.feed
    stdout, stderr = ("", "") if feed is None else feed.tails()
    latest = None if feed is None else feed.latest
    result, error = job.ending.result, job.ending.error
    return JobRecord(
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
        stdout=stdout[-tail:],
        stderr=stderr[-tail:],
        progress=None if latest is None else (latest.value, latest.total, latest.message),
        files=tuple(
            FileRecord(each.name, str(each.path), each.size, each.stamp, each.is_output) for each in job.files
        ),
        result=result if len(result) <= MAX_RESULT_BYTES else b"",
        error=None if error is None else ErrorRecord(int(error.code), error.message, error.data),
        is_task=feed is None,
        fence=job.fence,
        request=b"" if job.is_over else job.request,
        asked=b"" if job.is_over or len(job.asked) > MAX_RESULT_BYTES else job.asked,
    )
