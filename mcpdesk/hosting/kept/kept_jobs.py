"""Stored jobs of a core. They are in the state file of each server."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.server.calls.services import Services

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.jobs.job import Job, JobStore
    from mcpdesk.server.background.job_records import JobRecords
    from mcpdesk.server.state.server_state import ServerState
    from mcpdesk.storage.job_table import FileJobTable


class StoredJobs:
    """Job records of all servers of a core. Use it on the core's loop."""

    def __init__(self, services: Services, journal: Journal, endpoints: Mapping[str, HostedEndpoint]) -> None:
        self._services = services
        self._journal = journal
        self._endpoints = endpoints
        self._records: dict[str, JobRecords] = {}
        """Records by name of the server."""

    def update(self, job: Job, is_deleted: bool) -> None:
        """Store a job that began, progressed or ended. Delete it if `is_deleted`."""
        if job.server in self._endpoints:
            self._records_of(job.server).update(job, is_deleted)

    async def recall(self, name: str) -> None:
        """Load the jobs of a server that an earlier process stored in the state file."""
        state = self._endpoints[name].server.hosted
        if state is None or not await state.look_for_state():
            return
        try:
            await self._records_of(name).recall(self._file_table(state), time.time())
        except StorageError as error:
            self._journal.notify(f"{name}: {error}", Severity.ERROR, "logs")

    def start(self) -> None:
        """Begin regular work when the core serves clients. Jobs in a file need no such work."""

    async def forget(self, name: str) -> None:
        """Close the job records of a server that is removed."""
        if (records := self._records.pop(name, None)) is not None:
            await records.close(())

    async def close(self) -> None:
        """Write the pending records and the progress of running jobs before the core stops."""
        for name, records in self._records.items():
            await records.close([job for job in self._store().of_server(name) if not job.is_over])

    def _store(self) -> JobStore:
        return self._services.jobs

    def _records_of(self, name: str) -> JobRecords:
        """Return the records of a server. Create them if necessary."""
        records = self._records.get(name)
        if records is None:
            records = self._records[name] = self._make_records(name)
        return records

    def _make_records(self, name: str) -> JobRecords:
        """Create the records of a server."""
        from mcpdesk.server.background.job_records import JobRecords

        state = self._endpoints[name].server.hosted
        assert state is not None
        log_error = partial(self._log_error, name)
        return JobRecords(self._file_table(state), _own_identity(), name, self._store, log_error)

    def _file_table(self, state: ServerState) -> FileJobTable:
        from mcpdesk.jobs.process_table import is_running
        from mcpdesk.storage.job_table import FileJobTable

        return FileJobTable(state.data, _own_identity(), is_running)

    def _log_error(self, name: str, message: str) -> None:
        self._journal.log("error", "jobs", message, "", name, cause=f"jobs:{name}:{message}")


def _own_identity() -> str:
    """Return a text that identifies this process, even after another process has got its number."""
    from mcpdesk.jobs.process_table import process_identity

    return process_identity(os.getpid())
