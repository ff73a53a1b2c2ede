"""Time limits: calls over theirs are ended, waiting for a person is free."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import AsyncIterator, Awaitable

import pytest

from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.calls.deadlines import STOPPED, Deadlines
from mcpdesk.server.calls.running_call import Call
from tests.support.patience import WITHIN_S
from tests.support.served import Peer


def make_call() -> Call:
    return Call(1, "tools/call", {}, Terms(R5), Peer().channel)


async def begun(deadlines: Deadlines, call: Call, limit_s: float, work: Awaitable[object]) -> Task[object]:
    """A call that runs hosted code within a limit, and waits by now."""

    async def run() -> object:
        call.task = asyncio.current_task()
        return await deadlines.run(work, call, limit_s)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    return task


@pytest.fixture
async def forever() -> AsyncIterator[asyncio.Event]:
    """What hosted code waits for that goes on until the test ends."""
    event = asyncio.Event()
    yield event
    event.set()


async def test_a_call_over_its_limit_is_ended_and_others_are_not(forever: asyncio.Event) -> None:
    deadlines = Deadlines()
    brief, long = make_call(), make_call()
    late = await begun(deadlines, brief, 0.01, asyncio.Event().wait())
    others = await begun(deadlines, long, 60, forever.wait())
    assert await deadlines.run(asyncio.sleep(0, "quick"), make_call(), 60) == "quick"
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(TimeoutError, match=r"limit of 0\.01 s"):
            await late
    assert list(deadlines) == [long] and not long.stop
    forever.set()
    assert await others is True


async def test_a_paused_call_keeps_what_it_had_left(forever: asyncio.Event) -> None:
    deadlines, call = Deadlines(), make_call()
    running = await begun(deadlines, call, 60, forever.wait())
    with deadlines.paused(call):
        with deadlines.paused(call):
            assert call.deadline is None
        assert call.deadline is None
    assert call.deadline is not None
    forever.set()
    await running


async def test_a_stop_ends_each_call_once_and_does_not_wait_for_those_that_go_on(
    monkeypatch: pytest.MonkeyPatch, forever: asyncio.Event
) -> None:
    async def go_on() -> None:
        while not forever.is_set():
            try:
                await forever.wait()
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr("mcpdesk.server.calls.deadlines.HEED_S", 0.01)
    deadlines, deaf, cancelled = Deadlines(), make_call(), make_call()
    running = [await begun(deadlines, each, 60, go_on()) for each in (deaf, cancelled)]
    cancelled.end("nobody wants it")
    async with asyncio.timeout(WITHIN_S):
        await deadlines.stop()
    assert (deaf.stop, cancelled.stop) == (STOPPED, "nobody wants it")
    monkeypatch.setattr("mcpdesk.server.calls.deadlines.HEED_S", 3_600)
    async with asyncio.timeout(WITHIN_S):
        await deadlines.stop()
    forever.set()
    await asyncio.gather(*running, return_exceptions=True)
