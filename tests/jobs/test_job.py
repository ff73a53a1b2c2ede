"""One job: only legal changes of state, and listeners that are notified of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.jobs import job as module
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding, JobStore, NoRoom
from mcpdesk.protocol.task_shapes import TaskStatus
from tests.support.patience import in_time

S = TaskStatus


def job(ttl_s: float | None = 60.0) -> Job:
    return Job(
        "id", S.WORKING, 100.0, 100.0, ttl_s,
        server="server", tool="tool", peer="peer", owner="owner", stop=lambda _: None,
    )  # fmt: skip


@pytest.mark.requirement("8.3")
@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED, S.CANCELLED])
@pytest.mark.parametrize("other", list(S))
def test_nothing_follows_an_end(end: TaskStatus, other: TaskStatus) -> None:
    one = job()
    assert one.move(end, 101.0, "over")
    assert not one.move(other, 102.0, "again")
    assert (one.status, one.message, one.updated, one.is_over) == (end, "over", 101.0, True)
    one.set_message("still here")
    assert one.message == "over"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Shelf(JobStore):
    """A store, its clock, and the jobs it stopped."""

    def __init__(self, **options: Any) -> None:
        self.time = Clock()
        self.stopped: list[str] = []
        super().__init__(self.time, **options)

    def new(self, owner: str = "", server: str = "s", ttl_s: float | None = 60.0, most: int = 10) -> Job:
        return self.add(server, owner, "tool", "peer", ttl_s, most, self.stopped.append)


@pytest.mark.requirement("8.4")
async def test_jobs_are_found_by_their_owner_only_and_ids_cannot_be_guessed() -> None:
    shelf = Shelf()
    mine, other = shelf.new("ada"), shelf.new("ada")
    assert shelf.get(mine.id, "s", "ada") is mine
    assert shelf.get(mine.id, "s", "eve") is None and shelf.get(mine.id, "t", "ada") is None
    assert shelf.get("nothing", "s", "ada") is None
    assert len(mine.id) >= 22
    assert mine.id[:8] != other.id[:8] and mine.id[-8:] != other.id[-8:]
    assert shelf.owned("s", "ada") == [mine, other] and shelf.owned("s", "ada", mine.number) == [other]
    assert shelf.owned("s", "eve") == []
    shelf.close()


async def test_an_expired_job_is_gone_and_its_work_with_it() -> None:
    shelf = Shelf()
    brief, endless = shelf.new(ttl_s=10), shelf.new(ttl_s=None)
    shelf.time.now += 9.9
    assert shelf.get(brief.id, "s", "") is brief
    shelf.time.now += 0.2
    assert shelf.owned("s", "") == [endless]
    assert shelf.get(brief.id, "s", "") is None
    assert shelf.stopped == ["its lifetime is over"] and brief.status is TaskStatus.CANCELLED
    shelf.time.now += 1e9
    assert shelf.get(endless.id, "s", "") is endless
    shelf.close()


async def test_expired_jobs_are_swept_without_being_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.001)
    shelf, gone = Shelf(), asyncio.Event()
    shelf.new(ttl_s=1).listen(gone.set)
    shelf.time.now += 2
    await in_time(gone.wait())
    assert len(shelf) == 0
    assert shelf.stopped == ["its lifetime is over"]
    shelf.close()


async def test_calls_are_stored_for_the_next_core_and_tasks_are_not() -> None:
    shelf, changed = Shelf(), list[Job]()
    shelf.on_change = lambda job, is_deleted: changed.append(job)
    task = shelf.new()
    call = shelf.add("s", "", "tool", "peer", 60.0, 10, shelf.stopped.append, feed=CallFeed())
    for each in (task, call):
        shelf.begin(each)
    assert changed == [call, call]
    shelf.close()


async def test_too_many_are_refused_until_one_expires() -> None:
    shelf = Shelf()
    for owner in ("a", "b"):
        shelf.new(owner, most=2)
    with pytest.raises(NoRoom, match=r"2 tasks are already stored \(max_tasks is 2"):
        shelf.new("c", most=2)
    shelf.new("c", server="another", most=2)
    shelf.time.now += 61
    shelf.new("c", most=2)
    assert len(shelf.snapshot()) == 1
    shelf.close()


async def test_one_owner_leaves_room_for_the_others() -> None:
    shelf = Shelf()
    for _ in range(5):
        shelf.new("ada", most=10)
    with pytest.raises(NoRoom, match="half of it for one client"):
        shelf.new("ada", most=10)
    shelf.new("eve", most=10)
    shelf.close()


async def test_results_are_bounded_in_bytes_and_freed_with_their_jobs() -> None:
    shelf = Shelf(kept_bytes=100)
    big, small = shelf.new(ttl_s=10), shelf.new()
    shelf.finish(big, TaskStatus.COMPLETED, JobEnding(b"x" * 90))
    with pytest.raises(NoRoom, match="a result of 20 bytes exceeds the limit"):
        shelf.finish(small, TaskStatus.COMPLETED, JobEnding(b"x" * 20))
    assert small.status is TaskStatus.WORKING
    shelf.time.now += 11
    shelf.finish(small, TaskStatus.COMPLETED, JobEnding(b"x" * 20))
    assert small.ending.result == b"x" * 20 and len(shelf.snapshot()) == 1
    shelf.close()


@pytest.mark.requirement("8.3")
async def test_a_cancelled_job_stays_cancelled_whatever_its_work_does() -> None:
    shelf = Shelf()
    job = shelf.new()
    assert shelf.cancel(job, "enough") and not shelf.cancel(job, "again")
    shelf.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    shelf.wait_for_input(job, is_waiting=True)
    assert (job.status, job.message, job.ending.result) == (TaskStatus.CANCELLED, "enough", b"")
    assert shelf.stopped == ["enough"]
    shelf.close()


async def test_what_an_owner_left_behind_is_ended() -> None:
    shelf = Shelf()
    shelf.new("session:1")
    kept = shelf.new("session:2")
    shelf.delete_jobs_of_owner("s", "session:1", "connection closed")
    assert shelf.stopped == ["connection closed"] and [view.id for view in shelf.snapshot()] == [kept.id]
    shelf.cancel_by_id(kept.id, "from the desk")
    shelf.cancel_by_id("nothing", "from the desk")
    assert shelf.snapshot()[0].status is TaskStatus.CANCELLED
    shelf.close()
    assert len(shelf) == 0


async def test_listeners_hear_that_something_else_is_asked_until_it_is_over() -> None:
    shelf = Shelf()
    job, heard = shelf.new(), list[TaskStatus]()
    job.listen(lambda: heard.append(job.status))
    for waits in (True, True, False, False):
        shelf.wait_for_input(job, is_waiting=waits)
    asked, works = TaskStatus.INPUT_REQUIRED, TaskStatus.WORKING
    assert heard == [asked, asked, works]
    shelf.cancel(job, "enough")
    shelf.wait_for_input(job, is_waiting=True)
    assert heard == [asked, asked, works, TaskStatus.CANCELLED]
    shelf.close()


def call(shelf: Shelf, owner: str = "", most: int = 4, size: int = 0, ttl_s: float = 60.0) -> Job:
    return shelf.add("s", owner, "tool", "peer", ttl_s, most, shelf.stopped.append, size, CallFeed())


async def test_calls_are_kept_from_their_end_and_for_as_long_as_they_run() -> None:
    shelf = Shelf()
    job = call(shelf, ttl_s=10)
    shelf.time.now += 1e6
    assert shelf.find(job.id, "") is job
    shelf.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    shelf.time.now += 9.9
    assert shelf.find(job.id, "") is job
    shelf.time.now += 0.2
    assert shelf.find(job.id, "") is None and len(shelf) == 0
    shelf.close()


async def test_the_call_that_is_over_for_longest_makes_room_and_nothing_else_does() -> None:
    shelf = Shelf()
    running, first, second = (call(shelf, "ada", 8) for _ in range(3))
    task = shelf.new("ada", most=8)
    for job in (second, first):
        shelf.time.now += 1
        shelf.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    third = call(shelf, "ada", 8)
    assert shelf.find(second.id, "ada") is None and shelf.find(first.id, "ada") is first
    assert call(shelf, "ada", 8) is not None and shelf.find(first.id, "ada") is None
    with pytest.raises(NoRoom):
        call(shelf, "ada", 8)
    assert all(not job.is_over for job in (running, third, task))
    shelf.close()


async def test_calls_of_others_make_room_when_the_server_is_full() -> None:
    shelf = Shelf()
    done = [call(shelf, owner) for owner in ("ada", "ada", "bob", "bob")]
    for job in done:
        shelf.time.now += 1
        shelf.finish(job, TaskStatus.COMPLETED, JobEnding(b"{}"))
    assert call(shelf, "eve") is not None
    assert shelf.find(done[0].id, "ada") is None and len(shelf) == 4
    shelf.close()


async def test_results_make_room_for_results_until_one_is_too_large() -> None:
    shelf = Shelf(kept_bytes=1000)
    first, second, third = (call(shelf, most=10) for _ in range(3))
    shelf.finish(first, TaskStatus.COMPLETED, JobEnding(b"x" * 600))
    shelf.finish(second, TaskStatus.COMPLETED, JobEnding(b"x" * 600))
    assert shelf.find(first.id, "") is None and shelf.find(second.id, "") is second
    with pytest.raises(NoRoom):
        shelf.finish(third, TaskStatus.COMPLETED, JobEnding(b"x" * 1001))
    assert shelf.find(second.id, "") is second and not third.is_over
    assert third.feed is not None
    third.feed.stdout("x" * 300)
    with pytest.raises(NoRoom, match="a result of 1100 bytes"):
        shelf.finish(third, TaskStatus.COMPLETED, JobEnding(b"x" * 500))
    shelf.close()


async def test_stopping_waits_for_the_work_of_calls() -> None:
    shelf = Shelf()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            ended.set()

    tasks: list[asyncio.Task[None]] = []
    job = shelf.add("s", "", "tool", "peer", 60, 4, lambda _: (tasks[0].cancel(), None)[1], feed=CallFeed())
    tasks.append(shelf.run(job, work()))
    await asyncio.sleep(0)
    await shelf.stop()
    assert ended.is_set() and job.status is TaskStatus.CANCELLED and len(shelf) == 0
    await asyncio.sleep(0)
    assert not shelf._works
