"""The callbacks of a server: two processes share a file, and each callback fires once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.server.state.callback_timers import CallbackTimers, said, uri_of
from mcpdesk.storage.callbacks import Callback
from mcpdesk.storage.database import Database
from tests.support.desk import until
from tests.support.patience import WITHIN_S


def silent(level: str, data: Any) -> bool:
    """Nobody hears it."""
    return False


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[CallbackTimers, CallbackTimers]]:
    """Two processes' views of one file, as far as one process can have them."""
    files = [Database(tmp_path / "state.sqlite") for _ in range(2)]
    first, second = (CallbackTimers(file) for file in files)
    yield first, second
    for callbacks, file in zip((first, second), files, strict=True):
        await callbacks.close()
        file.close()


async def test_only_one_of_two_processes_fires(pair: tuple[CallbackTimers, CallbackTimers]) -> None:
    fired = asyncio.Event()
    for callbacks in pair:
        callbacks.subscribe(lambda callback, has_fired: fired.set() if has_fired else None)
    first, second = pair
    await first.set("tea", 0.05, 1, "client", silent)
    await second.wake()
    await asyncio.wait_for(fired.wait(), WITHIN_S)
    await first.close()
    await second.close()
    assert (await second.all())[0].fired == 1


async def test_who_set_it_hears_of_it_though_another_process_fired(
    pair: tuple[CallbackTimers, CallbackTimers],
) -> None:
    first, second = pair
    told: list[Any] = []

    def hear(level: str, data: Any) -> bool:
        told.append((level, data["fired"]))
        return True

    await first.set("tea", 3600, 2, "client", hear)
    assert await second.fire(1)
    await first.all()
    assert told == [("notice", 1)]


async def test_what_is_due_at_one_time_fires_at_once(tmp_path: Path) -> None:
    now = [1000.0]
    data = Database(tmp_path / "state.sqlite")
    callbacks = CallbackTimers(data, lambda: now[0])
    times: list[float | None] = []
    looks: list[object] = []
    callbacks.subscribe(lambda callback, has_fired: times.append(callback.last_fired) if has_fired else None)
    for _ in range(20):
        await callbacks.set("tea", 5, 1, "client", silent)
    now[0] = 1005.0
    run = data.run

    async def counted(work: Any) -> Any:
        looks.append(work)
        return await run(work)

    data.run = counted  # type: ignore[method-assign]
    await callbacks.wake()
    await until(lambda: len(times) == 20, 5)
    assert times == [1005.0] * 20 and len(looks) < 10
    await callbacks.close()
    data.close()


async def test_what_was_kept_for_a_call_that_is_cancelled_fires_in_time(tmp_path: Path) -> None:
    data = Database(tmp_path / "state.sqlite")
    callbacks = CallbackTimers(data)
    fired, is_kept = asyncio.Event(), asyncio.Event()
    callbacks.subscribe(lambda callback, has_fired: fired.set() if has_fired else None)
    run = data.run

    async def slow(work: Any) -> Any:
        value = await run(work)
        if isinstance(value, Callback):
            data.run = run  # type: ignore[method-assign]
            is_kept.set()
            await asyncio.Event().wait()
        return value

    data.run = slow  # type: ignore[method-assign]
    setting = asyncio.create_task(callbacks.set("tea", 0.05, 1, "client", silent))
    await asyncio.wait_for(is_kept.wait(), WITHIN_S)
    setting.cancel()
    await asyncio.wait_for(fired.wait(), WITHIN_S)
    await callbacks.close()
    data.close()


async def test_what_another_process_set_is_listed_and_cancelled(
    pair: tuple[CallbackTimers, CallbackTimers],
) -> None:
    first, second = pair
    await first.set("tea", 3600, 1, "client", silent)
    assert [each.message for each in await second.all()] == ["tea"]
    cancelled = await second.cancel(1)
    assert cancelled is not None and cancelled.due is None
    assert [each.due for each in await first.all()] == [None]


async def test_the_snapshot_is_a_new_one_only_when_something_changed(
    pair: tuple[CallbackTimers, CallbackTimers],
) -> None:
    first, _ = pair
    await first.set("tea", 3600, 1, "client", silent)
    version = first.version
    await first.all()
    assert first.version == version
    await first.cancel(1)
    assert first.version > version


def test_a_callback_says_what_it_is() -> None:
    callback = Callback(3, "tea", 60.0, 5, 2, 1000.0, "client", 0.0, None)
    assert uri_of(3) == "callback://3"
    assert said(callback) == {"callback_id": 3, "message": "tea", "fired": 2, "left": 3}
