"""Calls that come at one time begin in order, and the loop serves others between them."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import urlsplit

import orjson

from mcpdesk.server.calls import call_starts
from mcpdesk.server.calls.call_starts import CallStarts
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import within
from tests.support.rude import posted
from tests.support.site import serving

CALLS = 12
BUSY_S = 1.5 * call_starts.TURN_S


def call(number: int) -> bytes:
    params = {"name": "busy", "arguments": {"number": number}}
    return posted(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))


async def test_others_are_answered_while_many_busy_calls_begin() -> None:
    begun: list[int] = []

    async def busy(arguments: dict[str, Any], context: Any) -> str:
        begun.append(arguments["number"])
        time.sleep(BUSY_S)  # noqa: ASYNC251 (a handler that keeps the loop)
        return "done"

    async with serving() as served, within():
        served.hosted.server.tools.replace([Tool("busy", busy, {"type": "object"})])
        place = urlsplit(served.url)
        opened = [await asyncio.open_connection(place.hostname, place.port) for _ in range(CALLS)]
        health = f"{served.url}/health"
        async with served.client.get(health) as answer:  # its connection is open from now on
            assert answer.status == 200
        for number, (_, writer) in enumerate(opened):
            writer.write(call(number))
        async with served.client.get(health) as answer:
            assert answer.status == 200
        assert len(begun) < CALLS, "all calls began in one round of the loop"
        for reader, writer in opened:
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            writer.close()
    assert sorted(begun) == list(range(CALLS))


async def test_a_call_waits_only_in_a_round_that_has_lasted_long() -> None:
    woke = time.monotonic()
    starts = CallStarts(lambda: woke)
    assert starts.may_begin()
    woke -= 2 * call_starts.TURN_S
    assert not starts.may_begin()
    await starts.wait_for_turn()
    assert starts.may_begin(), "the loop has just served others"


async def test_calls_begin_in_the_order_in_which_they_came() -> None:
    starts, begun = CallStarts(), list[int]()

    async def begin(number: int) -> None:
        if not starts.may_begin():
            await starts.wait_for_turn()
        begun.append(number)

    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(begin(number)))
        if number % 7 == 0:
            await asyncio.sleep(0)
    tasks[150].cancel()
    await asyncio.wait(tasks)
    left = [number for number in range(200) if number != 150 or not tasks[150].cancelled()]
    assert begun == left
