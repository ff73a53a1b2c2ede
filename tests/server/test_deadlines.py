"""Time limits: calls over theirs are ended, waiting for a person is free."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.call import Call
from mcpdesk.server.deadlines import STOPPED, TIMED_OUT, Deadlines
from tests.support.patience import WITHIN_S
from tests.support.served import Peer


def make_call() -> Call:
    return Call(1, "tools/call", {}, Terms(R5), Peer().channel)


async def test_a_call_over_its_limit_is_ended_and_others_are_not() -> None:
    deadlines = Deadlines()
    brief, long, forgotten = make_call(), make_call(), make_call()
    brief.task = asyncio.create_task(asyncio.Event().wait())
    deadlines.watch(forgotten, 0.01)
    deadlines.forget(forgotten)
    deadlines.watch(brief, 0.01)
    deadlines.watch(long, 60)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.wait({brief.task})
    assert (brief.stop, long.stop, forgotten.stop) == (TIMED_OUT, "", "")
    assert list(deadlines) == [brief, long]


async def test_a_paused_call_keeps_what_it_had_left() -> None:
    deadlines, call = Deadlines(), make_call()
    deadlines.watch(call, 60)
    with deadlines.paused(call):
        assert call.deadline is None
    assert call.deadline is not None


async def test_two_people_waited_for_at_once_leave_the_limit_as_it_was() -> None:
    deadlines, call = Deadlines(), make_call()
    deadlines.watch(call, 60)
    with deadlines.paused(call):
        with deadlines.paused(call):
            assert call.deadline is None
        assert call.deadline is None
    assert call.deadline is not None


async def test_a_stop_ends_each_call_once_and_does_not_wait_for_those_that_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpdesk.server.deadlines.HEED_S", 0.01)
    deadlines, deaf, cancelled = Deadlines(), make_call(), make_call()
    cancelled.end("nobody wants it")
    for call in (deaf, cancelled):
        deadlines.watch(call, 60)
    async with asyncio.timeout(WITHIN_S):
        await deadlines.stop()
    assert (deaf.stop, cancelled.stop) == (STOPPED, "nobody wants it")
    monkeypatch.setattr("mcpdesk.server.deadlines.HEED_S", 3_600)
    async with asyncio.timeout(WITHIN_S):
        await deadlines.stop()
