"""Calls of a load test go out at its rate, and the failures among them are counted."""

from __future__ import annotations

from mcpdesk.connect import connect
from mcpdesk.features.load.load_run import LoadPlan, run_load
from tests.support.served import make_server

ME = {"name": "test", "version": "1"}


async def test_calls_are_sent_at_the_rate_of_the_plan() -> None:
    plan = LoadPlan("echo", {"text": "a"}, rate=100.0, seconds=0.1)
    async with connect(make_server(), ME) as server:
        result = await run_load(server, plan)
    assert (result.calls, result.failed, result.errors) == (10, 0, {})
    assert result.seconds >= 9 / 100, "the last call is due then"
    assert len(result.times) == 10 and result.percentile(100) == result.times[-1]


async def test_failures_are_counted_by_their_text() -> None:
    async with connect(make_server(), ME) as server:
        result = await run_load(server, LoadPlan("echo", {}, rate=1000.0, seconds=0.003))
    assert result.calls == result.failed == 3
    assert list(result.errors.values()) == [3]
