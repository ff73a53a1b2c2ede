"""Job records of a replica when answers of the engine are lost, and records of other replicas' jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable
from mcpdesk.features.replicas.group.job_records import ReplicaJobRecords
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding, JobStore
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.background.watched_tasks import WatchedTasks
from mcpdesk.storage.job_table import FIRST_FENCE, JobRow
from tests.support.patience import until


class Table:
    """A table in memory that may be unreachable; tests read its rows."""

    def __init__(self) -> None:
        self.kept: dict[str, JobRow] = {}
        self.taken: list[JobRow] = []
        self.taken_over: set[str] = set()
        self.is_away = False

    async def write(self, rows: Sequence[JobRow], gone: Collection[str]) -> set[str]:
        if self.is_away:
            raise StorageError("away")
        fresh = {row.id: row for row in rows if row.id not in self.taken_over}
        self.kept |= fresh
        for each in gone:
            self.kept.pop(each, None)
        return {row.id for row in rows} - set(fresh)

    async def find(self, identifiers: Sequence[str]) -> list[JobRow | None]:
        return [self.kept.get(each) for each in identifiers]

    async def rows(self, owner: str) -> list[JobRow]:
        return [row for row in self.kept.values() if row.record.owner == owner]

    async def claim(self) -> list[JobRow]:
        taken, self.taken = self.taken, []
        return taken

    async def running(self) -> set[str]:
        return {row.id for row in self.kept.values() if not row.is_over and row.id not in self.taken_over}

    async def reclaim(self, identifiers: Iterable[str]) -> list[JobRow]:
        rows = [self.kept[each] for each in identifiers]
        return [replace(row, record=replace(row.record, fence=row.record.fence + 1)) for row in rows]


class Ends:
    """The methods a store needs, with one set of records."""

    def __init__(self, records: ReplicaJobRecords) -> None:
        self._records = records

    def check(self, job: Job) -> None:
        self._records.check()

    async def begun(self, job: Job) -> None:
        await self._records.begun(job)

    async def conclude(self, final: Job) -> bool:
        return await self._records.conclude(final)


class Replica:
    """A store with its records."""

    def __init__(self) -> None:
        self.table, self.repeated, self.store = Table(), list[Job](), JobStore()
        self.stopped: list[str] = []
        self.records = ReplicaJobRecords(
            cast(EngineJobTable, self.table), "a", "mine", lambda: self.store, lambda told: None, self.repeat,
            lambda job, why: None, lambda: "", lambda: 1000.0,
        )  # fmt: skip
        self.store.shared, self.store.on_change = Ends(self.records), self.records.update

    def repeat(self, job: Job) -> bool:
        self.repeated.append(job)
        return self.store.restore(job)

    def begin(self) -> Job:
        return self.store.add("mine", "ada", "dig", "curl", None, 10, self.stopped.append, feed=CallFeed())


@pytest.fixture
def replica() -> Replica:
    return Replica()


async def test_an_end_counts_once_it_is_written(replica: Replica) -> None:
    job = replica.begin()
    await replica.store.confirm(job)
    replica.store.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    assert not job.is_over and job.is_ending
    assert not replica.store.cancel(job, "too late")
    await replica.store.wait_until_settled(job)
    assert job.status is TaskStatus.COMPLETED
    assert replica.table.kept[job.id].record.status is TaskStatus.COMPLETED
    replica.store.close()


async def test_the_end_of_a_job_that_another_replica_has_is_not_told(replica: Replica) -> None:
    job = replica.begin()
    await replica.store.confirm(job)
    replica.table.taken_over.add(job.id)
    replica.store.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    await replica.store.wait_until_settled(job)
    assert job.is_lost and not job.is_over
    assert replica.store.by_id(job.id) is None
    assert replica.table.kept[job.id].record.status is TaskStatus.WORKING
    assert len(replica.stopped) == 1


async def test_a_task_that_replicas_share_is_written_when_it_waits_for_input(replica: Replica) -> None:
    task = replica.store.add("mine", "ada", "dig", "curl", None, 10, replica.stopped.append)
    await replica.store.confirm(task)
    replica.store.wait_for_input(task, is_waiting=True)
    await until(lambda: replica.table.kept[task.id].record.status is TaskStatus.INPUT_REQUIRED)
    replica.store.close()


async def test_a_job_whose_beginning_cannot_be_written_is_dropped(replica: Replica) -> None:
    job = replica.begin()
    replica.table.is_away = True
    with pytest.raises(StorageError):
        await replica.store.confirm(job)
    assert replica.store.by_id(job.id) is None and len(replica.stopped) == 1


@pytest.mark.parametrize(("fence", "times"), [(FIRST_FENCE, 0), (FIRST_FENCE + 1, 1)])
async def test_a_refused_job_whose_record_came_all_the_same_is_not_run(
    replica: Replica, fence: int, times: int
) -> None:
    other = Replica()
    job = other.begin()
    job.request, job.fence = b"call", fence
    await other.records.begun(job)
    replica.table.kept = other.table.kept
    await replica.records.sweep(may_take_over=True)
    assert len(replica.repeated) == times
    record = replica.table.kept[job.id].record
    assert (record.status is TaskStatus.FAILED) is not bool(times)
    replica.store.close()
    other.store.close()


async def test_a_job_that_ends_every_replica_is_given_up(replica: Replica) -> None:
    other = Replica()
    job = other.begin()
    job.request = b"call"
    for fence, times in ((4, 1), (5, 1)):
        job.fence = fence
        row = JobRow(job.id, "a", replace((await row_of(other, job)).record, fence=fence))
        replica.table.taken = [row]
        await replica.records.sweep(may_take_over=True)
        assert len(replica.repeated) == times
        replica.store.remove_taken_over(job.id)
    assert replica.table.kept[job.id].record.status is TaskStatus.FAILED
    replica.store.close()
    other.store.close()


async def row_of(replica: Replica, job: Job) -> JobRow:
    await replica.records.begun(job)
    return replica.table.kept[job.id]


async def test_a_watched_task_that_another_replica_took_over_is_told_of_by_its_record(
    replica: Replica,
) -> None:
    job, told = replica.begin(), list[TaskStatus]()
    await replica.store.confirm(job)
    with WatchedTasks([job], replica.store, replica.records, lambda each: told.append(each.status)):
        replica.store.wait_for_input(job, is_waiting=True)
        replica.store.remove_taken_over(job.id)
        assert told == [TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED]
        row = replica.table.kept[job.id]
        record = replace(row.record, status=TaskStatus.COMPLETED, result=b"{}", fence=2)
        replica.table.kept[job.id] = JobRow(job.id, "b", record)
        await until(lambda: len(told) == 3)
    assert told[-1] is TaskStatus.COMPLETED
