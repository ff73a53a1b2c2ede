"""Stored jobs of a replica, in the engine that all replicas share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.group.job_records import ReplicaJobRecords
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.hosting.journal import Journal
from mcpdesk.hosting.kept.kept_jobs import StoredJobs
from mcpdesk.server.calls.services import Services

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.jobs.job import Job

END_JOB = "end-job"
"""Kind of the event that asks a replica to end a job that it runs."""
SWEEP_PERIOD_S = 1.0


class ReplicaJobs(StoredJobs):
    """Job records of all servers of a replica. Other replicas can show the jobs and take them over."""

    def __init__(
        self,
        services: Services,
        journal: Journal,
        endpoints: Mapping[str, HostedEndpoint],
        group: ReplicaGroup,
        is_draining: Callable[[], bool],
    ) -> None:
        super().__init__(services, journal, endpoints)
        self._group, self._is_draining = group, is_draining
        self._sweep_task: asyncio.Task[None] | None = None
        services.mark = group.id
        services.shared_outcomes = self
        services.records_of = self._records_of
        services.shared_rounds = group.rounds
        group.bus.listen(END_JOB, lambda facts: self._store().cancel_by_id(facts["job"], facts["why"]))
        group.engine.on_available.append(self._rewrite_jobs)

    async def recall(self, name: str) -> None:
        """Do nothing, because `start` begins to take over jobs of replicas that ended."""

    def start(self) -> None:
        """Start to take over the jobs of replicas that ended."""
        self._sweep_task = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Write the pending records and the progress of running jobs before the core stops."""
        if self._sweep_task is not None:
            self._sweep_task.cancel()
            await asyncio.gather(self._sweep_task, return_exceptions=True)
        await super().close()

    def check(self, job: Job) -> None:
        """Raise StorageError if shared state cannot be written at present."""
        self._records_of(job.server).check()

    async def begun(self, job: Job) -> None:
        """Record that a job begins. Raises: StorageError if the record cannot be written."""
        await self._records_of(job.server).begun(job)

    async def conclude(self, final: Job) -> bool:
        """Write the final state of a job. Return False if another replica has taken over the job."""
        return await self._records_of(final.server).conclude(final)

    async def _sweep(self) -> None:
        """Sweep the records of all servers periodically. Log an error only when it changes."""
        last_errors: dict[str, str] = {}
        while True:
            await asyncio.sleep(SWEEP_PERIOD_S)
            for server in list(self._endpoints):
                previous_error = last_errors.pop(server, "")
                try:
                    await self._records_of(server).sweep(may_take_over=not self._is_draining())
                except StorageError as error:
                    last_errors[server] = str(error)
                    if last_errors[server] != previous_error:
                        self._journal.log("info", "jobs", str(error), "", server)

    def _rewrite_jobs(self) -> None:
        for name in self._endpoints:
            self._records_of(name).rewrite_jobs()

    def _records_of(self, name: str) -> ReplicaJobRecords:
        records = super()._records_of(name)
        assert isinstance(records, ReplicaJobRecords)
        return records

    def _make_records(self, name: str) -> ReplicaJobRecords:
        group = self._group
        return ReplicaJobRecords(
            group.job_table(name),
            group.id,
            name,
            self._store,
            partial(self._log_error, name),
            lambda job: self._endpoints[name].dispatcher.tool_calls.repeat(job),
            lambda job, why: group.bus.publish(END_JOB, job=job, why=why),
            lambda: group.away,
            group.engine.clock,
        )
