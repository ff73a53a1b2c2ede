"""Stored jobs that all replicas share.

A job counts as started or finished only after the start or end was written to the engine. A state that was
sent to a client therefore stays valid if the replica dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable
from mcpdesk.jobs.job import Job, JobStore
from mcpdesk.server.background.job_records import JobRecords, interrupt, job_record
from mcpdesk.server.background.shared_job_records import SharedJobRecords
from mcpdesk.storage.job_table import FIRST_FENCE, JobRow

MAX_TAIL_LENGTH = 16 << 10
"""Maximum number of characters at the end of each output stream that other replicas can show while a job
runs.
"""
RETRY_S = 0.5
"""Seconds between two attempts to write the end of a job."""
POLL_S = 0.5
"""Seconds between two checks of a job on another replica."""
MAX_HOLDERS = 4
"""Maximum number of replicas that run a job one after another. The limit exists because a job may crash each
of them.
"""
HOLDER_ENDED = "interrupted: the machine that ran the job ended"


class ReplicaJobRecords(JobRecords, SharedJobRecords):
    """Stored jobs that every replica shows. If a replica dies, another replica takes over its jobs."""

    def __init__(
        self,
        table: EngineJobTable,
        holder: str,
        server: str,
        store: Callable[[], JobStore],
        complain: Callable[[str], None],
        repeat: Callable[[Job], bool],
        end_on_other_replica: Callable[[str, str], object],
        outage_reason: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        """`repeat(job)` runs a job of another replica again. It returns False if that is not possible.

        `end_on_other_replica(job_id, reason)` asks another replica to end a job that it runs.
        `outage_reason()` returns the reason why nothing can be written now, or "". `complain(message)` logs
        an error. `clock()` returns the Unix time of the engine.
        """
        super().__init__(table, holder, server, store, complain)
        self._shared_table = table
        self._repeat, self._end_on_other_replica = repeat, end_on_other_replica
        self._outage_reason, self._clock = outage_reason, clock
        self._written_markers: dict[str, int] = {}
        """Value of `_output_marker` of each running job at the last write, by job id."""

    def update(self, job: Job, is_deleted: bool) -> None:
        """Write a job soon, or delete its record if `is_deleted`."""
        if is_deleted:
            self._written_markers.pop(job.id, None)
        super().update(job, is_deleted)

    def check(self) -> None:
        """Raise StorageError if nothing can be written now."""
        if reason := self._outage_reason():
            raise StorageError(reason)

    async def begun(self, job: Job) -> None:
        """Write a new job before its client is notified. Raises: StorageError; the job is then dropped."""
        self._changed_jobs.pop(job.id, None)
        await self._write_now({job.id: job})

    async def conclude(self, final: Job) -> bool:
        """Write the end of a job. Retry until the engine accepts the write.

        Return False if another replica has taken over the job.
        """
        while True:
            try:
                async with self._lock:
                    self._changed_jobs.pop(final.id, None)
                    return not await self._table.write([self._row(final)], ())
            except StorageError as error:
                self._complain(f"the end of a job will be written later: {error}")
                await asyncio.sleep(RETRY_S)

    async def find(self, identifier: str, owner: str) -> Job | None:
        """Return the last written state of a job on any replica, or None as `find_all` does.

        Raises: StorageError.
        """
        return (await self.find_all([identifier], owner))[0]

    async def find_all(self, identifiers: Sequence[str], owner: str) -> list[Job | None]:
        """Return the last written state of jobs of an owner, in the order of `identifiers`.

        An element is None if the job does not exist, has expired or has another owner. Raises: StorageError.
        """
        now = self._clock()
        jobs = list[Job | None]()
        for row in await self._shared_table.find(identifiers):
            job = None if row is None or row.record.owner != owner else self._job_of_row(row)
            jobs.append(None if job is None or job.is_expired(now) else job)
        return jobs

    async def list_jobs(self, owner: str, is_task: bool) -> list[Job]:
        """Return the last written state of all jobs of an owner, oldest first. Raises: StorageError."""
        jobs = [
            self._job_of_row(row) for row in await self._table.rows(owner) if row.record.is_task is is_task
        ]
        now = self._clock()
        return [job for job in jobs if not job.is_expired(now)]

    async def wait_for_end(self, job: Job, within_s: float | None = None) -> Job:
        """Wait until a job of another replica ends, at most `within_s` seconds. Return its last state.

        Raises: StorageError.
        """
        try:
            async with asyncio.timeout(within_s):
                while not job.is_over:
                    await asyncio.sleep(POLL_S)
                    stored_job = await self.find(job.id, job.owner)
                    if stored_job is None:
                        raise StorageError("the job is no longer known")
                    job = stored_job
        except TimeoutError:
            pass
        return job

    async def cancel(self, job: Job, reason: str) -> Job:
        """Ask another replica to end its job. Raises: StorageError."""
        self._end_on_other_replica(job.id, reason)
        return await self.wait_for_end(job, 2 * POLL_S + 1)

    async def sweep(self, *, may_take_over: bool) -> None:
        """Compare the stored jobs with the running ones, and take over jobs of dead replicas.

        Raises: StorageError.
        """
        self.write_soon()
        own_jobs = {job.id: job for job in self._own_jobs() if not job.is_over}
        stored_ids = await self._shared_table.running()
        for identifier, job in own_jobs.items():
            # If a record is missing, the engine lost it, or another replica took over the job. An attempt to
            # write the job shows which of these happened.
            if identifier not in stored_ids or self._written_markers.get(identifier) != _output_marker(job):
                self.update(job, False)
        known_ids = own_jobs.keys() | self._changed_jobs.keys()
        lost_ids = [each for each in stored_ids - known_ids if self._store().by_id(each) is None]
        for row in await self._shared_table.reclaim(lost_ids):
            # Without an earlier holder, the creation of the job failed, and its client got an error.
            await self._take_over(row, may_repeat=row.record.fence > FIRST_FENCE + 1)
        for row in await self._table.claim() if may_take_over else ():
            await self._take_over(row, may_repeat=True)

    def rewrite_jobs(self) -> None:
        """Write all jobs again, because the engine may have lost its data."""
        for job in self._own_jobs():
            self.update(job, False)

    async def _take_over(self, row: JobRow, *, may_repeat: bool) -> None:
        """Run a job again that this replica has claimed, or mark it as interrupted. Raises: StorageError."""
        job = self._job_of_row(row)
        if may_repeat and job.request and job.fence <= MAX_HOLDERS and self._repeat(job):
            self.update(job, False)
            return
        interrupt(job, self._clock(), HOLDER_ENDED)
        async with self._lock:
            await self._table.write([self._row(job)], ())

    def _own_jobs(self) -> Sequence[Job]:
        return self._store().of_server(self._server)

    def _row(self, job: Job) -> JobRow:
        if job.is_over:
            self._written_markers.pop(job.id, None)
            return super()._row(job)
        self._written_markers[job.id] = _output_marker(job)
        return JobRow(job.id, self._holder, job_record(job, MAX_TAIL_LENGTH))

    def _on_write_failure(self, changed: dict[str, Job | None]) -> None:
        self._changed_jobs = changed | self._changed_jobs  # the next sweep writes the job

    def _on_lost_jobs(self, identifiers: set[str]) -> None:
        for identifier in identifiers:
            self._store().remove_taken_over(identifier)


def _output_marker(job: Job) -> int:
    """Return a value that changes with each output of the job."""
    if job.feed is None:
        return 0
    latest = job.feed.latest
    return job.feed.size + (0 if latest is None else hash(latest))
