"""Work at given times: called when it is due, when it is poked, and again after it failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.jobs import schedule
from mcpdesk.jobs.schedule import Schedule
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

    make(work, Clock()).poke()
    await in_time(done.wait())
    assert calls == [0, 1, 2]


async def test_an_absent_store_is_one_line_without_a_traceback_and_work_is_called_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schedule, "TROUBLE_S", 0.0)
    done, calls = asyncio.Event(), list[int]()

    async def work() -> float | None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise StorageError("redis://engine cannot be used: it did not answer within 1 s")
        done.set()
        return None

    make(work, Clock()).poke()
    await in_time(done.wait())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.exc_info is None
    assert "it did not answer within 1 s" in record.getMessage()


async def test_a_poke_ends_a_long_sleep(make: Make) -> None:
    called = asyncio.Event()

    async def work() -> float | None:
        called.set()
        return 1e12

    each = make(work, Clock())
    each.poke()
    await in_time(called.wait())
    called.clear()
    each.poke()
    await in_time(called.wait())


async def test_a_clock_that_was_set_is_noticed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "LOOK_S", 0.01)
    looks = asyncio.Semaphore(0)

    async def work() -> float | None:
        looks.release()
        return 1e12

    make(work, Clock()).poke()
    async with within():
        for _ in range(3):
            await looks.acquire()


async def test_work_that_fails_is_logged_and_tried_again(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "TROUBLE_S", 0.01)
    done, calls = asyncio.Event(), list[int]()

    async def work() -> float | None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("disk full")
        done.set()
        return None

    with caplog.at_level(logging.ERROR):
        make(work, Clock()).poke()
        await in_time(done.wait())
    assert "disk full" in caplog.text
