"""Coroutines in lanes: in order, side by side when they wait, each inside a real task."""

from __future__ import annotations

import asyncio

from mcpdesk.hosting.lanes import Lanes


async def test_short_work_runs_in_order_in_one_task() -> None:
    lanes, seen = Lanes(), []

    async def work(number: int) -> None:
        seen.append((number, asyncio.current_task()))

    for number in range(5):
        lanes.run(work(number))
    await lanes.finished()
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
    assert len({task for _, task in seen}) == 1


async def test_work_that_waits_holds_nobody_up() -> None:
    lanes, gate, done = Lanes(), asyncio.Event(), []

    async def wait() -> None:
        await gate.wait()
        done.append("waited")

    async def quick() -> None:
        done.append("quick")

    for work in (wait(), quick(), wait(), quick()):
        lanes.run(work)
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == ["quick", "quick"]
    gate.set()
    async with asyncio.timeout(5):
        await lanes.finished()
    assert done == ["quick", "quick", "waited", "waited"]
    assert len(lanes) == 0
