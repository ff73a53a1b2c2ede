"""The callbacks of a server: two processes share a file, and each callback fires once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.server.state.callback_timers import CallbackTimers
from mcpdesk.storage.database import Database
from tests.support.patience import in_time


def silent(level: str, data: Any) -> bool:
    """Deliver to no client."""
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
    await in_time(fired.wait())
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


async def test_what_another_process_set_is_listed_and_cancelled(
    pair: tuple[CallbackTimers, CallbackTimers],
) -> None:
    first, second = pair
    await first.set("tea", 3600, 1, "client", silent)
    assert [each.message for each in await second.all()] == ["tea"]
    cancelled = await second.cancel(1)
    assert cancelled is not None and cancelled.due is None
    assert [each.due for each in await first.all()] == [None]


async def test_one_that_fires_nothing_leaves_it_to_the_other_which_hears_of_it(
    pair: tuple[CallbackTimers, CallbackTimers],
) -> None:
    brief, lasting = pair
    brief.fires_due_callbacks = False
    fired = asyncio.Event()
    for callbacks in pair:
        callbacks.subscribe(lambda callback, has_fired: fired.set() if has_fired else None)
    await lasting.wake()
    await brief.set("tea", 0.01, 1, "client", silent)
    await brief.wake()
    await lasting.reload()
    await in_time(fired.wait())
    assert (await brief.all())[0].fired == 1
