"""Asynchronous calls of a core, and their files, for the HTTP routes."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import FileUnavailable, StorageError
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import Download, ProducedFile
from mcpdesk.jobs.job import Job, JobStore
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.server.background.job_reader import JobReader, brief, details, state_of
from mcpdesk.server.background.job_work import job_owner, job_roots, output_chars, session_mark

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.server.background.shared_job_records import SharedJobRecords
    from mcpdesk.server.offer.server import Server

T = TypeVar("T")

UNREACHABLE = "the machine that runs the job does not answer: try again in a few seconds"
"""Error for a job that could not be cancelled."""
NOT_HERE = "the machine that ran the job does not answer, and this one does not share the folder of its files"
"""End of the error for a file that only another machine can read."""

MAX_DIGESTS = 1000
"""Maximum number of cached file digests. They are cached because computing one takes long."""
MAX_OPEN_READS = 2
"""Maximum number of files read at once for digests and archives. Each needs a thread and disk space."""


def _close_download(download: Download) -> None:
    os.close(download.descriptor)


class HostedJobs:
    """Asynchronous calls of a core."""

    def __init__(
        self,
        store: JobStore,
        endpoints: Mapping[str, HostedEndpoint],
        records_of: Callable[[str], SharedJobRecords] | None = None,
    ) -> None:
        """`records_of` returns the shared job records of a server, or is None if no process shares them."""
        self._store = store
        self._records_of = records_of
        self._endpoints = endpoints
        self._digests: dict[tuple[Path, tuple[int, ...]], str] = {}
        """SHA-256 of files, by path and state of the file."""
        self._read_slots = asyncio.Semaphore(MAX_OPEN_READS)

    def find(self, identifier: str, principal: Principal) -> HostedJob | None:
        """Return the job with that id, or None if it does not exist or belongs to another caller."""
        return self._owned_job(identifier, job_owner(principal))

    def has(self, identifier: str) -> bool:
        """Return True if this process has the job or task in its own memory."""
        return self._store.by_id(identifier) is not None

    async def recorded(self, identifier: str, principal: Principal) -> HostedJob | None:
        """Return the caller's job with that id from the shared records, or None. Raises: StorageError."""
        if self._records_of is None:
            return None
        for name, endpoint in list(self._endpoints.items()):
            records = self._records_of(name)
            job = await records.find(identifier, job_owner(principal))
            if job is not None and job.feed is not None:
                return RecordedJob(self, self._store, job, endpoint.server, records)
        return None

    async def listed(self, principal: Principal, session: str) -> list[bytes] | None:
        """Return the caller's jobs, encoded and newest first.

        The caller is identified by its principal, or by its HTTP session if it is anonymous. None if the
        caller has neither. Raises: StorageError.
        """
        session_name = session_mark(session)
        if principal.kind == "open" and not session_name:
            return None
        owner = job_owner(principal)
        jobs: dict[str, Job] = {}
        for server in list(self._endpoints):
            if self._records_of is not None:
                recorded_jobs = await self._records_of(server).list_jobs(owner, is_task=False)
                jobs |= {job.id: job for job in recorded_jobs}
            jobs |= {job.id: job for job in self._store.calls(server, owner)}
        own_jobs = [job for job in jobs.values() if principal.kind != "open" or job.session == session_name]
        newest_first = sorted(own_jobs, key=lambda job: (job.created, job.number), reverse=True)
        return [codec.encode(brief(job)) for job in newest_first]

    def by_id(self, identifier: str) -> HostedJob | None:
        """Return the job with that id, of any owner. Use it only for callers that may see all jobs."""
        job = self._store.by_id(identifier)
        return None if job is None else self._owned_job(identifier, job.owner)

    def _owned_job(self, identifier: str, owner: str) -> HostedJob | None:
        """Return the job of an owner with that id, or None."""
        job = self._store.find(identifier, owner)
        endpoint = None if job is None else self._endpoints.get(job.server)
        if job is None or endpoint is None:
            return None
        return HostedJob(self, self._store, job, endpoint.server)

    async def digest(self, file: ProducedFile, roots: Sequence[Path]) -> str:
        """Return the SHA-256 of a file. Raises: FileUnavailable."""
        key = file.path, file.stamp
        file_digest = self._digests.get(key)
        if file_digest is not None:
            await asyncio.to_thread(downloads.check_unchanged, file, roots)
        else:
            file_digest = await self._read(lambda: downloads.digest(file, roots))
            if len(self._digests) >= MAX_DIGESTS:
                del self._digests[next(iter(self._digests))]
            self._digests[key] = file_digest
        return file_digest

    async def pack(self, files: Sequence[ProducedFile], roots: Sequence[Path], name: str) -> Download:
        """Return an archive of files. Raises: FileUnavailable, ArchiveTooLarge."""
        return await self._read(lambda: downloads.archive_download(files, roots, name), _close_download)

    async def _read(self, work: Callable[[], T], discard: Callable[[T], None] = lambda _: None) -> T:
        """Run work on a thread. If the caller is cancelled first, pass the result to `discard`.

        At most `MAX_OPEN_READS` run at once. Cancelled work counts until its thread ends.
        """
        await self._read_slots.acquire()
        return await _on_thread(work, discard, self._read_slots.release)


class HostedJob:
    """One asynchronous call, as its caller may see it."""

    def __init__(self, jobs: HostedJobs, store: JobStore, job: Job, server: Server) -> None:
        self._jobs = jobs
        self._store = store
        self._job = job
        self._roots = job_roots(server)
        self._max_output_chars = output_chars(server)

    @property
    def state(self) -> str:
        """State: `queued`, `running`, `succeeded`, `failed` or `canceled`."""
        return state_of(self._job)

    @property
    def is_over(self) -> bool:
        """True if the job has ended."""
        return self._job.is_over

    @property
    def result_size(self) -> int:
        """Size of the result in bytes. It is the largest part of the details."""
        return len(self._job.ending.result)

    def facts(self) -> bytes:
        """Encode all details about the job."""
        return codec.encode(details(self._job, self._max_output_chars))

    def reader(self, kinds: Collection[str] | None = None) -> JobReader:
        """Follow the job. `kinds` selects from `stdout`, `stderr` and `progress`; None selects all."""
        return JobReader(self._job) if kinds is None else JobReader(self._job, kinds)

    async def cancel(self, reason: str) -> bool:
        """Cancel the job. Return False if the job has already ended. Raises: StorageError if this cannot be
        written.
        """
        self._store.check_shared(self._job)
        is_cancelled = self._store.cancel(self._job, reason)
        await self._store.wait_until_settled(self._job)
        await self._store.wait_for_work(self._job)
        return is_cancelled

    async def manifest(self) -> bytes:
        """Encode a list of the files that the job made. Reads the files."""
        job = self._job
        file_entries = [await self._file_entry(file) for file in job.files]
        body: JSONObject = {"job_id": job.id, "status": state_of(job), "tool": job.tool}
        body |= {"files": file_entries, "total_bytes": sum(file.size for file in job.files)}
        return codec.encode(body)

    async def download(self, name: str = "") -> Download | None:
        """Return the download of a file, or of all files.

        With a `name`, this is the file of that name. Otherwise it is the only file, or an archive of all
        files. The complete output of a program is included only if the job made no file. None if nothing can
        be downloaded.

        Raises: FileUnavailable, ArchiveTooLarge.
        """
        job = self._job
        if name:
            files = [file for file in job.files if file.name == name]
        else:
            files = [file for file in job.files if not file.is_output] or list(job.files)
        if not files:
            return None
        if len(files) > 1:
            return await self._jobs.pack(files, self._roots, f"{job.tool}-{job.id[:8]}")
        return await _on_thread(lambda: downloads.single_download(files[0], self._roots), _close_download)

    async def _file_entry(self, file: ProducedFile) -> JSONObject:
        """Return the entry of a file in `manifest`. Reads the file."""
        media_type = mimetypes.guess_type(file.name, strict=False)[0] or "application/octet-stream"
        body: JSONObject = {"name": file.name, "size": file.size, "media_type": media_type}
        body |= {"is_output": True} if file.is_output else {}
        body["download"] = f"/jobs/{self._job.id}/download?file={quote(file.name, safe='')}"
        try:
            return body | {"sha256": await self._jobs.digest(file, self._roots)}
        except FileUnavailable as error:
            return body | {"sha256": None, "problem": str(error)}


class RecordedJob(HostedJob):
    """Job of a process that ended or cannot be reached. Only its record is available."""

    def __init__(
        self, jobs: HostedJobs, store: JobStore, job: Job, server: Server, records: SharedJobRecords
    ) -> None:
        super().__init__(jobs, store, job, server)
        self._records = records

    async def cancel(self, reason: str) -> bool:
        """Ask the process that runs the job to end it. Raises: StorageError if no process runs it."""
        if self.is_over:
            return False
        self._job = await self._records.cancel(self._job, reason)
        if not self.is_over:
            raise StorageError(UNREACHABLE)
        return True

    async def download(self, name: str = "") -> Download | None:
        """Return the download if this machine can read the folder of the job's files.

        Raises: FileUnavailable, ArchiveTooLarge.
        """
        try:
            return await super().download(name)
        except FileUnavailable as error:
            raise FileUnavailable(f"{error}: {NOT_HERE}") from error


async def _on_thread(
    work: Callable[[], T], discard: Callable[[T], None], on_end: Callable[[], None] = lambda: None
) -> T:
    """Run work on a thread. If the caller is cancelled first, pass the result to `discard`.

    `on_end` is always called when the work has ended.
    """
    work_task = asyncio.create_task(asyncio.to_thread(work))
    work_task.add_done_callback(lambda _: on_end())
    try:
        return await asyncio.shield(work_task)
    except asyncio.CancelledError:
        work_task.add_done_callback(
            lambda future: None if future.cancelled() or future.exception() else discard(future.result())
        )
        raise
