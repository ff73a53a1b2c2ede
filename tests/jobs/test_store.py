"""The store of jobs: bounded, bound to owners, and forgetful in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.jobs import store as module
from mcpdesk.jobs.job import Ending, Job
from mcpdesk.jobs.store import JobStore, NoRoom
from mcpdesk.protocol.tasks import TaskStatus


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Shelf(JobStore):
    """A store, the time it goes by, and what it stopped."""

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
    assert len({mine.id, other.id}) == 2 and len(mine.id) >= 22
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
    await asyncio.wait_for(gone.wait(), 5)
    assert len(shelf) == 0
    assert shelf.stopped == ["its lifetime is over"]
    shelf.close()


async def test_too_many_are_refused_until_one_expires() -> None:
    shelf = Shelf()
    for owner in ("a", "b"):
        shelf.new(owner, most=2)
    with pytest.raises(NoRoom, match=r"2 tasks are kept already \(max_tasks is 2"):
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
    shelf.finish(big, TaskStatus.COMPLETED, Ending(b"x" * 90))
    with pytest.raises(NoRoom, match="a result of 20 bytes would be more than is kept"):
        shelf.finish(small, TaskStatus.COMPLETED, Ending(b"x" * 20))
    assert small.status is TaskStatus.WORKING
    shelf.time.now += 11
    shelf.finish(small, TaskStatus.COMPLETED, Ending(b"x" * 20))
    assert small.ending.result == b"x" * 20 and len(shelf.snapshot()) == 1
    shelf.close()


async def test_what_the_work_holds_counts_until_it_ends() -> None:
    shelf = Shelf(kept_bytes=100)
    held = shelf.add("s", "", "tool", "peer", 60.0, 10, shelf.stopped.append, size=80)
    with pytest.raises(NoRoom, match="arguments of 30 bytes"):
        shelf.add("s", "", "tool", "peer", 60.0, 10, shelf.stopped.append, size=30)
    shelf.finish(held, TaskStatus.COMPLETED, Ending(b"x" * 90))
    assert shelf._bytes["s"] == 90
    shelf.cancel(shelf.add("s", "", "tool", "peer", 60.0, 10, shelf.stopped.append, size=10), "enough")
    assert shelf._bytes["s"] == 90
    shelf.close()
    assert shelf._bytes["s"] == 0


@pytest.mark.requirement("8.3")
async def test_a_cancelled_job_stays_cancelled_whatever_its_work_does() -> None:
    shelf = Shelf()
    job = shelf.new()
    assert shelf.cancel(job, "enough") and not shelf.cancel(job, "again")
    shelf.finish(job, TaskStatus.COMPLETED, Ending(b"{}"))
    shelf.wait_for_input(job, waits=True)
    assert (job.status, job.message, job.ending.result) == (TaskStatus.CANCELLED, "enough", b"")
    assert shelf.stopped == ["enough"]
    shelf.close()


async def test_what_an_owner_left_behind_is_ended() -> None:
    shelf = Shelf()
    shelf.new("session:1")
    kept = shelf.new("session:2")
    shelf.forget_owner("s", "session:1", "connection closed")
    assert shelf.stopped == ["connection closed"] and [view.id for view in shelf.snapshot()] == [kept.id]
    shelf.cancel_by_id(kept.id, "from the desk")
    shelf.cancel_by_id("nothing", "from the desk")
    assert shelf.snapshot()[0].status is TaskStatus.CANCELLED
    shelf.close()
    assert len(shelf) == 0


async def test_every_change_grows_the_version() -> None:
    shelf = Shelf()
    seen = [shelf.version]
    job = shelf.new()
    seen.append(shelf.version)
    shelf.wait_for_input(job, waits=True)
    seen.append(shelf.version)
    shelf.finish(job, TaskStatus.COMPLETED, Ending(b"{}"))
    seen.append(shelf.version)
    assert seen == sorted(set(seen))
    shelf.close()
