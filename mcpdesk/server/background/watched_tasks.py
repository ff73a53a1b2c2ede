"""Tasks that a listener watches. They may run in this process or in another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.jobs.job import Job, JobStore

if TYPE_CHECKING:
    from mcpdesk.server.background.shared_job_records import SharedJobRecords

CHECK_PERIOD_S = 0.5
"""Seconds between two checks of tasks of other processes."""


class WatchedTasks:
    """Reports the state of tasks at the start of the block, and after each change."""

    def __init__(
        self,
        jobs: Sequence[Job],
        store: JobStore,
        records: SharedJobRecords | None,
        notify: Callable[[Job], None],
    ) -> None:
        """A job that is not in `store` runs in another process. Such a job must be a copy of an entry in
        `records`.
        """
        self._jobs, self._store, self._records, self._notify = jobs, store, records, notify
        self._elsewhere: dict[str, Job] = {}
        """Tasks of other processes, in the state that was reported last."""
        self._stack = ExitStack()
        self._look_task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        for job in self._jobs:
            if self._store.by_id(job.id) is job:
                self._stack.callback(job.listen(lambda job=job: self._changed(job)))  # type: ignore[misc]
            else:
                self._look_at(job)
            self._notify(job)

    def __exit__(self, *problem: object) -> None:
        self._stack.close()
        if self._look_task is not None:
            self._look_task.cancel()

    def _changed(self, job: Job) -> None:
        if job.is_lost:
            self._look_at(job)  # another process has taken over the task
        else:
            self._notify(job)

    def _look_at(self, job: Job) -> None:
        if self._records is None or job.is_over:
            return
        self._elsewhere[job.id] = job
        if self._look_task is None or self._look_task.done():
            self._look_task = asyncio.get_running_loop().create_task(self._look(self._records))

    async def _look(self, records: SharedJobRecords) -> None:
        while self._elsewhere:
            await asyncio.sleep(CHECK_PERIOD_S)
            remote_tasks = list(self._elsewhere.values())
            try:
                jobs = await records.find_all([each.id for each in remote_tasks], remote_tasks[0].owner)
            except StorageError:
                continue  # changes are reported when the shared store responds again
            for before, now in zip(remote_tasks, jobs, strict=True):
                if now is not None and _seen(now) != _seen(before):
                    self._notify(now)
                if now is None or now.is_over:
                    del self._elsewhere[before.id]
                else:
                    self._elsewhere[before.id] = now


def _seen(job: Job) -> tuple[object, ...]:
    """Return the properties of a task whose changes are reported."""
    return job.status, job.message, job.updated, job.asked
