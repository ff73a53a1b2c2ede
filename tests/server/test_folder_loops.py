"""Loops of a folder stay usable after ended calls and after code that would stop a loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.running_call import RUNNING_CALL
from mcpdesk.server.calls.threads.folder_loops import FolderLoops
from mcpdesk.server.calls.threads.loop_context import run_on
from mcpdesk.server.calls.threads.running_code import RUNNING_CODE
from mcpdesk.server.calls.threads.sync_context import awaitable
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import Asked, AskingServer
from tests.support.patience import WITHIN_S, until


class Lending(AskingServer):
    """A tool that gives its context to the test."""

    def __init__(self) -> None:
        super().__init__()
        self.contexts: list[Context] = []
        self.server: Server
        self.server.tools.replace([Tool("lend", self.lend, {"type": "object"})])

    async def lend(self, arguments: dict[str, Any], context: Context) -> Any:
        self.contexts.append(context)
        return "lent"


@asynccontextmanager
async def folder_loops() -> AsyncIterator[tuple[FolderLoops, Context]]:
    asking = Lending()
    await Asked(asking).round(1, "lend")
    loops = FolderLoops("block")
    try:
        yield loops, asking.contexts[0]
    finally:
        await loops.close()
    assert len(loops) == 0


async def loop_of(context: Context) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def test_a_call_that_is_cancelled_before_its_handler_starts_does_not_hold_the_loop() -> None:
    async with folder_loops() as (loops, context):
        loop = await run_on(loops, loop_of, context)
        may_end = threading.Event()
        place = (1, "queued")
        RUNNING_CALL.set(place)
        second = asyncio.create_task(run_on(loops, loop_of, context))
        await asyncio.sleep(0)  # it has asked whether the loop responds
        loop.call_soon_threadsafe(may_end.wait, WITHIN_S)
        try:
            await until(lambda: loops.calls == 1)
            second.cancel()
            await asyncio.wait({second})
            assert second.cancelled()
            assert not RUNNING_CODE.has(place), "its handler does not run"
        finally:
            may_end.set()
        await until(lambda: loops.calls == 0)


async def test_hosted_code_that_exits_in_a_callback_does_not_end_its_loop() -> None:
    async with folder_loops() as (loops, context):
        loop = await run_on(loops, loop_of, context)
        loop.call_soon_threadsafe(sys.exit)
        loop.call_soon_threadsafe(loop.stop)
        assert await run_on(loops, loop_of, context) is loop


async def test_code_in_a_thread_that_outlives_its_loop_is_reported_as_ended() -> None:
    may_end, has_begun = threading.Event(), threading.Event()

    def hold(ctx: Context) -> None:
        has_begun.set()
        may_end.wait(WITHIN_S)

    place = (1, "held")
    RUNNING_CALL.set(place)
    try:
        async with folder_loops() as (loops, context):
            held = asyncio.create_task(run_on(loops, awaitable(hold), context))
            await asyncio.to_thread(has_begun.wait, WITHIN_S)
            held.cancel()
            await asyncio.wait({held})
            await until(lambda: RUNNING_CODE.has(place))
    finally:
        may_end.set()
    await until(lambda: not RUNNING_CODE.has(place))


async def later_log(context: Context) -> Callable[[str, Any], bool]:
    return context.log_later("later")


@pytest.mark.timeout(20)
async def test_a_function_of_the_context_may_be_called_on_the_cores_loop() -> None:
    async with folder_loops() as (loops, context):
        log = await run_on(loops, later_log, context)
        assert log("info", "called by a timer of the core") is False  # the connection has no log level
