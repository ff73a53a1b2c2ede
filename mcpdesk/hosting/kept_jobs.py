"""Stored jobs of a core. They are in the state file of each server, or in a store shared with replicas."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.server.calls.services import Services

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.replicas.replica_group import ReplicaGroup
    from mcpdesk.jobs.job import Job, JobStore
    from mcpdesk.server.background.job_records import JobRecords, SharedJobRecords
    from mcpdesk.server.state.server_state import ServerState
    from mcpdesk.storage.job_table import FileJobTable

END_JOB = "end-job"
"""Kind of the event that asks a replica to end a job that it runs."""
SWEEP_S = 1.0


class KeptJobs:
    """Job records of all servers of a core. Use it on the core's loop."""

    def __init__(
        self,
        services: Services,
        journal: Journal,
        endpoints: Mapping[str, HostedEndpoint],
        replicas: ReplicaGroup | None,
        is_draining: Callable[[], bool],
    ) -> None:
        self._services, self._journal, self._endpoints = services, journal, endpoints
        self._replicas, self._is_draining = replicas, is_draining
        self._records: dict[str, JobRecords] = {}
        self._sweeping_aio: asyncio.Task[None] | None = None
        if replicas is not None:
            services.mark, services.shared_ends, services.records_of = replicas.id, self, self._shared
            services.shared_rounds = replicas.rounds
            replicas.bus.listen(END_JOB, lambda facts: self._store().cancel_by_id(facts["job"], facts["why"]))
            replicas.engine.on_back.append(self._restate)

    def update(self, job: Job, is_forgotten: bool) -> None:
        """Store a job that began, progressed or ended. Delete it if `is_forgotten`."""
        if job.server in self._endpoints:
            self._of(job.server).update(job, is_forgotten)

    async def recall(self, name: str) -> None:
        """Load the jobs of a server that an earlier process stored. Jobs of other replicas are not loaded."""
        home = self._endpoints[name].server.hosted
        if self._replicas is not None or home is None or not await home.look_for_state():
            return
        try:
            await self._of(name).recall(self._file_table(home), time.time())
        except StorageError as error:
            self._journal.notify(f"{name}: {error}", Severity.ERROR, "logs")

    def start(self) -> None:
        """Start to take over the jobs of replicas that ended."""
        if self._replicas is not None:
            self._sweeping_aio = asyncio.create_task(self._sweep())

    async def forget(self, name: str) -> None:
        """Close the job records of a server that is removed."""
        if (records := self._records.pop(name, None)) is not None:
            await records.close(())

    async def close(self) -> None:
        """Write the pending records and the progress of running jobs before the core stops."""
        if self._sweeping_aio is not None:
            self._sweeping_aio.cancel()
            await asyncio.gather(self._sweeping_aio, return_exceptions=True)
        for name, records in self._records.items():
            await records.close([job for job in self._store().of_server(name) if not job.is_over])

    def check(self, job: Job) -> None:
        """Raise StorageError if shared state cannot be written at present."""
        self._shared(job.server).check()

    async def begun(self, job: Job) -> None:
        """Write that a job begins. Raises: StorageError if this cannot be written."""
        await self._shared(job.server).begun(job)

    async def conclude(self, final: Job) -> bool:
        """Write the final state of a job. Return False if another replica has taken it over."""
        return await self._shared(final.server).conclude(final)

    def _store(self) -> JobStore:
        return self._services.jobs

    async def _sweep(self) -> None:
        trouble: dict[str, str] = {}
        while True:
            await asyncio.sleep(SWEEP_S)
            for name in list(self._endpoints):
                before = trouble.pop(name, "")
                try:
                    await self._shared(name).sweep(may_take_over=not self._is_draining())
                except StorageError as error:
                    trouble[name] = str(error)
                    if trouble[name] != before:  # logged once instead of at every attempt
                        self._journal.log("info", "jobs", str(error), "", name)

    def _restate(self) -> None:
        for name in self._endpoints:
            self._shared(name).restate()

    def _of(self, name: str) -> JobRecords:
        if self._replicas is not None:
            return self._shared(name)
        from mcpdesk.server.background.job_records import JobRecords

        records, home = self._records.get(name), self._endpoints[name].server.hosted
        if records is None:
            assert home is not None
            complain = partial(self._complain, name)
            records = JobRecords(self._file_table(home), _own_mark(), name, self._store, complain)
            self._records[name] = records
        return records

    def _file_table(self, home: ServerState) -> FileJobTable:
        from mcpdesk.jobs.process_table import is_running
        from mcpdesk.storage.job_table import FileJobTable

        return FileJobTable(home.data, _own_mark(), is_running)

    def _shared(self, name: str) -> SharedJobRecords:
        from mcpdesk.server.background.job_records import SharedJobRecords

        replicas, records = self._replicas, self._records.get(name)
        assert replicas is not None
        if records is None:
            records = self._records[name] = SharedJobRecords(
                replicas.job_table(name),
                replicas.id,
                name,
                self._store,
                partial(self._complain, name),
                lambda job: self._endpoints[name].dispatcher.tool_calls.repeat(job),
                lambda job, why: replicas.bus.publish(END_JOB, job=job, why=why),
                lambda: replicas.away,
                replicas.engine.clock,
            )
        assert isinstance(records, SharedJobRecords)
        return records

    def _complain(self, name: str, message: str) -> None:
        self._journal.log("error", "jobs", message, "", name, cause=f"jobs:{name}:{message}")


def _own_mark() -> str:
    from mcpdesk.jobs.process_table import process_mark

    return process_mark(os.getpid())
