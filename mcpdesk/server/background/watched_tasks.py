"""Tasks whose state a client watches with `subscriptions/listen`. They run in this process or another one."""

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
    """Context manager that reports the state of tasks when its block begins, and after each change."""

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
        self._remote_tasks: dict[str, Job] = {}
        """Tasks of other processes, in the state that was reported last."""
        self._stack = ExitStack()
        self._poll_task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        for job in self._jobs:
            if self._store.by_id(job.id) is job:
                self._stack.callback(job.listen(lambda job=job: self._on_change(job)))  # type: ignore[misc]
            else:
                self._start_polling(job)
            self._notify(job)

    def __exit__(self, *problem: object) -> None:
        self._stack.close()
        if self._poll_task is not None:
            self._poll_task.cancel()

    def _on_change(self, job: Job) -> None:
        if job.is_lost:
            self._start_polling(job)  # another process has taken over the task
        else:
            self._notify(job)

    def _start_polling(self, job: Job) -> None:
        if self._records is None or job.is_over:
            return
        self._remote_tasks[job.id] = job
        if self._poll_task is None or self._poll_task.done():
            self._poll_task = asyncio.get_running_loop().create_task(self._poll(self._records))

    async def _poll(self, records: SharedJobRecords) -> None:
        """Report changes of tasks in other processes until all of them have ended."""
        while self._remote_tasks:
            await asyncio.sleep(CHECK_PERIOD_S)
            last_states = list(self._remote_tasks.values())
            try:
                current_states = await records.find_all(
                    [each.id for each in last_states], last_states[0].owner
                )
            except StorageError:
                continue  # changes are reported when the shared store responds again
            for last_state, current_state in zip(last_states, current_states, strict=True):
                if current_state is None:  # the task was deleted
                    del self._remote_tasks[last_state.id]
                    continue
                if _reported_properties(current_state) != _reported_properties(last_state):
                    self._notify(current_state)
                if current_state.is_over:
                    del self._remote_tasks[last_state.id]
                else:
                    self._remote_tasks[last_state.id] = current_state


def _reported_properties(job: Job) -> tuple[object, ...]:
    """Return the properties of a task whose changes are reported."""
    return job.status, job.message, job.updated, job.asked
