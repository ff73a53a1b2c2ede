"""Work at given times: called when it is due, when it is poked, and again after it failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.jobs import schedule
from mcpdesk.jobs.schedule import Schedule, SerialQueue
from tests.support.patience import in_time, within

Make = Callable[..., Schedule]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    made: list[Schedule] = []

    def build(work: Callable[[], Awaitable[float | None]], clock: Callable[[], float]) -> Schedule:
        made.append(Schedule(work, clock))
        return made[-1]

    yield build
    for each in made:
        await each.close()


class Clock:
    """A clock that advances by a tenth of a second at each reading."""

    now = 1000.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


async def test_work_is_called_until_it_wants_no_more(make: Make) -> None:
    done, calls = asyncio.Event(), list[int]()

    async def work() -> float | None:
        calls.append(len(calls))
        if len(calls) < 3:
            return 0.0
        done.set()
        return None

    make(work, Clock()).wake()
    await in_time(done.wait())
    assert calls == [0, 1, 2]


async def test_an_absent_store_is_one_line_without_a_traceback_and_work_is_called_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schedule, "RETRY_S", 0.0)
    done, calls = asyncio.Event(), list[int]()

    async def work() -> float | None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise StorageError("redis://engine cannot be used: it did not answer within 1 s")
        done.set()
        return None

    make(work, Clock()).wake()
    await in_time(done.wait())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.exc_info is None
    assert "it did not answer within 1 s" in record.getMessage()


async def test_waking_ends_a_long_sleep(make: Make) -> None:
    called = asyncio.Event()

    async def work() -> float | None:
        called.set()
        return 1e12

    each = make(work, Clock())
    each.wake()
    await in_time(called.wait())
    called.clear()
    each.wake()
    await in_time(called.wait())


async def test_a_clock_that_was_set_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAX_SLEEP_S", 0.01)
    looks = asyncio.Semaphore(0)

    async def work() -> float | None:
        looks.release()
        return 1e12

    make(work, Clock()).wake()
    async with within():
        for _ in range(3):
            await looks.acquire()


async def test_work_that_fails_is_logged_and_tried_again(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "RETRY_S", 0.01)
    done, calls = asyncio.Event(), list[int]()

    async def work() -> float | None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("disk full")
        done.set()
        return None

    with caplog.at_level(logging.ERROR):
        make(work, Clock()).wake()
        await in_time(done.wait())
    assert "disk full" in caplog.text


async def test_items_are_worked_on_one_by_one_whatever_fails(caplog: pytest.LogCaptureFixture) -> None:
    """An item that is asked for again while it waits is one; while it is worked on, it comes again."""
    done, over = list[str](), asyncio.Event()

    async def work(item: str) -> None:
        done.append(item)
        if done == ["absent"]:
            for each in ("absent", "broken", "broken", "last"):
                queue.ask(each)
            raise StorageError("no engine")
        if item == "broken":
            raise OSError("disk full")
        if item == "last":
            over.set()

    queue = SerialQueue(work)
    queue.ask("absent")
    queue.ask("absent")
    await in_time(over.wait())
    assert done == ["absent", "absent", "broken", "last"]
    told = [(record.levelname, bool(record.exc_info), record.getMessage()) for record in caplog.records]
    assert told == [("WARNING", False, "work failed: no engine"), ("ERROR", True, "work failed")]
    over.clear()
    queue.ask("last")
    await in_time(over.wait())


async def test_closing_ends_the_work_at_hand_and_what_waits() -> None:
    done, began = list[str](), asyncio.Event()

    async def work(item: str) -> None:
        done.append(item)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("ended")

    queue = SerialQueue(work)
    await queue.close()
    queue.ask("first")
    queue.ask("second")
    await in_time(began.wait())
    await in_time(queue.close())
    assert done == ["first", "ended"]
