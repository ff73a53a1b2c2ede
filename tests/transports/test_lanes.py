"""Coroutines in lanes: in order, side by side when they wait, each inside a real task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import ContextVar

from mcpdesk.transports.lanes import AT_ONCE, Lanes
from tests.support.patience import WITHIN_S


async def test_short_work_runs_in_order_in_one_task() -> None:
    lanes, seen = Lanes(lambda _: None), []

    async def work(number: int) -> None:
        seen.append((number, asyncio.current_task()))

    for number in range(5):
        lanes.run(work(number))
    await lanes.finished()
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
    assert len({task for _, task in seen}) == 1


async def test_who_asks_alone_is_served_at_once_and_several_in_turn() -> None:
    lanes, seen = Lanes(lambda _: None), []

    async def work(number: int) -> None:
        seen.append(number)

    one, other = object(), object()
    lanes.run(work(0), one)
    await lanes.finished()
    lanes.run(work(1), one)
    assert seen == [0, 1]
    lanes.run(work(2), other)
    lanes.run(work(3), other)
    lanes.run(work(4), one)
    assert seen == [0, 1]
    await lanes.finished()
    assert seen == [0, 1, 2, 3, 4]


async def test_several_run_together_and_one_by_itself() -> None:
    seen: list[object] = []

    def together(work: Callable[[], None]) -> None:
        seen.append("together")
        work()
        seen.append("end")

    async def work(number: int) -> None:
        seen.append(number)

    lanes = Lanes(lambda _: None, together)
    one, other = object(), object()
    lanes.run(work(0), one)
    await lanes.finished()
    lanes.run(work(1), one)
    lanes.run(work(2), other)
    await lanes.finished()
    assert seen == [0, 1, 2]
    for number in (3, 4, 5):
        lanes.run(work(number), object())
    await lanes.finished()
    assert seen == [0, 1, 2, "together", 3, 4, 5, "end"]


async def test_others_have_their_turn_while_much_is_queued() -> None:
    lanes, seen = Lanes(lambda _: None), []

    async def work() -> None:
        seen.append("work")

    def other() -> None:
        seen.append("other")
        if len(seen) < 3 * AT_ONCE:
            asyncio.get_running_loop().call_soon(other)

    lanes.run(work())
    await lanes.finished()
    seen.clear()
    for _ in range(2 * AT_ONCE):
        lanes.run(work())
    other()
    await lanes.finished()
    most = max(len(run) for run in "".join(name[0] for name in seen).split("o"))
    assert most == AT_ONCE and seen.count("work") == 2 * AT_ONCE


async def test_what_a_coroutine_returns_is_delivered() -> None:
    delivered: list[int] = []
    lanes = Lanes(delivered.append)

    async def work(number: int) -> int:
        return number

    for number in range(3):
        lanes.run(work(number))
    await lanes.finished()
    assert delivered == [0, 1, 2]
    lanes.close()


async def test_work_that_waits_holds_nobody_up() -> None:
    lanes, gate, done = Lanes(lambda _: None), asyncio.Event(), []

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
    async with asyncio.timeout(WITHIN_S):
        await lanes.finished()
    assert done == ["quick", "quick", "waited", "waited"]
    assert len(lanes) == 0


async def parked() -> Lanes[None]:
    """Lanes of which one is parked."""
    lanes = Lanes(lambda _: None)

    async def work() -> None:
        return None

    lanes.run(work())
    await lanes.finished()
    await asyncio.sleep(0)
    return lanes


async def test_what_need_not_wait_is_done_when_go_returns() -> None:
    lanes, seen = await parked(), []

    async def work() -> None:
        async with asyncio.TaskGroup():
            seen.append(asyncio.current_task())

    outer = asyncio.current_task()
    lanes.run_all([work(), work()])
    assert len(seen) == 2 and outer not in seen
    assert asyncio.current_task() is outer
    lanes.close()


async def test_work_let_go_in_one_turn_ends_in_another() -> None:
    lanes, gate, seen = await parked(), asyncio.Event(), []

    async def work() -> None:
        seen.append("began")
        await gate.wait()
        seen.append("ended")

    lanes.run_all([work() for _ in range(40)])
    assert seen == ["began"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["began"] * 40
    gate.set()
    async with asyncio.timeout(WITHIN_S):
        await lanes.finished()
    assert seen[40:] == ["ended"] * 40
    lanes.close()


async def test_context_variables_of_one_call_do_not_reach_the_next() -> None:
    lanes, seen, user = await parked(), [], ContextVar("user", default="nobody")

    async def work(name: str) -> None:
        seen.append(user.get())
        user.set(name)

    for name in ("ada", "bob", "eve"):
        lanes.run_all([work(name)])
        await lanes.finished()
    assert seen == ["nobody"] * 3
    lanes.close()


async def test_a_call_cancelled_while_it_waits_leaves_its_lane_to_others() -> None:
    lanes, seen = await parked(), []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.uncancel()
            seen.append("cancelled")

    for _ in range(2):
        lanes.run(work())
        async with asyncio.timeout(WITHIN_S):
            await lanes.finished()
    assert seen == ["cancelled"] * 2
    lanes.close()


async def test_no_task_is_left_of_lanes_that_are_closed_or_cancelled() -> None:
    before = asyncio.all_tasks()
    closed, cancelled = await parked(), await parked()
    assert len(asyncio.all_tasks() - before) == 2
    closed.close()
    for lane in cancelled._lanes:
        lane.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_cancellation_too_late_for_its_work_does_not_meet_the_next() -> None:
    lanes, seen = await parked(), []

    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.uncancel()

    async def next_one() -> None:
        await asyncio.sleep(0)
        seen.append("done")

    lanes.run(cancels_itself())
    lanes.run(next_one())
    async with asyncio.timeout(WITHIN_S):
        await lanes.finished()
    assert seen == ["done"]
    lanes.close()


async def test_a_lane_cancelled_while_its_call_ends_parks_no_more() -> None:
    """The call takes both cancellations: the one meant for it, and the one meant for the lane."""
    lanes, ending = await parked(), asyncio.Event()
    (lane,) = lanes._lanes

    async def ends_slowly() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.uncancel()
        ending.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    lanes.run(ends_slowly())
    await ending.wait()
    lane.cancel()
    done, _ = await asyncio.wait({lane}, timeout=WITHIN_S)
    assert done == {lane}
    lanes.close()
