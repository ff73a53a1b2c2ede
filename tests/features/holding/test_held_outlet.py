"""Messages that wait behind a held one: their number has a limit."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.features.holding import held_outlet
from mcpdesk.features.holding.held_outlet import HeldQueue
from tests.support.patience import within


async def test_messages_beyond_the_limit_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_outlet, "MAX_QUEUED_MESSAGES", 2)
    delivered: list[bytes] = []
    is_held, may_go = asyncio.Event(), asyncio.Event()

    async def hold(message: bytes) -> bytes:
        is_held.set()
        await may_go.wait()
        return message

    queue = HeldQueue(lambda message: message == b"0", hold, delivered.append)
    queue.put(b"0")
    async with within():
        await is_held.wait()
        for number in range(1, 5):
            queue.put(b"%d" % number)
        assert delivered == [b"3", b"4"], "two wait behind the held one"
        may_go.set()
        await queue.wait_until_empty()
    assert delivered == [b"3", b"4", b"0", b"1", b"2"]


async def test_a_queue_that_is_closed_before_it_moves_returns_its_messages_and_can_be_used_again() -> None:
    delivered: list[bytes] = []
    held = asyncio.Event()

    async def hold(message: bytes) -> bytes:
        held.set()
        await asyncio.Event().wait()
        return message

    queue = HeldQueue(lambda message: message.startswith(b"held"), hold, delivered.append)
    queue.put(b"held 1")
    queue.put(b"2")
    assert queue.close() == [b"held 1", b"2"]
    async with within():
        await queue.wait_until_empty()
        queue.put(b"held 3")
        await held.wait()
        queue.put(b"4")
        assert queue.close() == [b"held 3", b"4"]
        await queue.wait_until_empty()
    queue.put(b"5")
    assert delivered == [b"5"]


async def test_messages_behind_one_that_cannot_be_held_or_delivered_are_delivered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    delivered: list[bytes] = []

    async def hold(message: bytes) -> bytes:
        if message == b"held 1":
            raise OSError("cannot be held")
        return message

    def deliver(message: bytes) -> None:
        if message == b"held 2":
            raise OSError("cannot be delivered")
        delivered.append(message)

    queue = HeldQueue(lambda message: message.startswith(b"held"), hold, deliver)
    for message in (b"held 1", b"held 2", b"held 3", b"4"):
        queue.put(message)
    async with within():
        await queue.wait_until_empty()
    assert delivered == [b"held 3", b"4"] and not queue.has_messages
    assert [each.exc_info is not None for each in caplog.records] == [True, True]
