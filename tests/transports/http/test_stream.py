"""Event streams: what leaves together, and peers that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from mcpdesk.protocol.stateless import LOG_LEVEL_KEY
from mcpdesk.recorder.record import Direction
from mcpdesk.server.context import Context
from mcpdesk.server.tool import Tool
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import stream as module
from mcpdesk.transports.http.connections import HttpConnections
from mcpdesk.transports.http.stream import EventStream
from tests.support.patience import WITHIN_S
from tests.support.site import Served, events, serving


async def test_a_peer_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNREAD_LIMIT", 1 << 20)
    put: list[int] = []
    over = asyncio.Event()

    async def flood(request: web.BaseRequest) -> web.StreamResponse:
        stream = EventStream(request)
        while not stream.is_broken:
            stream.put(b"x" * 65536)
            put.append(65536)
            await asyncio.sleep(0)
        over.set()
        return await stream.finish()

    listener = HttpConnections(flood, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        await over.wait()
    assert sum(put) < 64 << 20
    writer.close()
    server.close()
    await listener.close(1)


async def test_one_message_may_be_of_any_size() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        stream = EventStream(request)
        stream.put(b"x" * (module.UNREAD_LIMIT + 1))
        return await stream.finish()

    listener = HttpConnections(answer, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        seen = 0
        while chunk := await reader.read(1 << 20):
            seen += len(chunk)
    assert seen > module.UNREAD_LIMIT
    writer.close()
    server.close()
    await listener.close(1)


async def test_events_of_a_busy_sender_leave_together_and_none_waits_for_the_last() -> None:
    sizes: list[int] = []
    all_came = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        stream = EventStream(request)
        write = stream.response.write

        async def counted(data: bytes | bytearray | memoryview) -> None:
            sizes.append(len(data))
            await write(data)

        stream.response.write = counted  # type: ignore[method-assign]
        for _ in range(1_000):
            stream.put(b"x" * 1_000)
            await stream.drain()
        stream.put(b"y")
        await asyncio.wait_for(all_came.wait(), WITHIN_S)
        return await stream.finish()

    listener = HttpConnections(answer, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(WITHIN_S):
        await reader.readuntil(b"y")
        all_came.set()
        await reader.read()
    assert sum(sizes) == 1_000_001
    assert 1_000_000 / module.BURST < len(sizes) < 500
    assert max(sizes) < 2 * module.BURST
    writer.close()
    server.close()
    await listener.close(1)


@asynccontextmanager
async def reporting(
    handler: Callable[[dict[str, Any], Context], Awaitable[str]],
) -> AsyncIterator[tuple[Served, aiohttp.ClientResponse]]:
    """The answer to a call of that handler, by a client that wants to know how far it is."""
    async with serving() as served:
        tools = served.hosted.server.tools
        tools.replace([*tools, Tool("reports", handler, {"type": "object"})])
        meta = {"progressToken": "p", LOG_LEVEL_KEY: "info"}
        params = {"name": "reports", "arguments": {}, "_meta": meta}
        async with await served.modern("tools/call", params) as answer:
            yield served, answer


async def test_what_is_sent_in_one_turn_is_one_write_recorded_before_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[bytes] = []
    put = EventStream.put

    def noted(self: EventStream, piece: bytes) -> None:
        written.append(piece)
        put(self, piece)

    monkeypatch.setattr(EventStream, "put", noted)
    monkeypatch.setattr(module, "TURN_S", WITHIN_S)

    async def five(arguments: dict[str, Any], ctx: Context) -> str:
        for number in range(5):
            await ctx.progress(number)
        await ctx.info("last")
        await ctx.progress(5)
        return "done"

    async with reporting(five) as (served, answer):
        messages = events(await answer.text())
    assert [each.get("params", {}).get("progress") for each in messages] == [0, 1, 2, 3, 4, None, 5, None]
    assert messages[5]["params"]["data"] == "last"
    assert [orjson.loads(frame) for way, frame in served.recorder.seen if way is Direction.OUT] == messages
    assert [piece.count(b"data: ") for piece in written] == [1, 6, 1]


async def test_what_a_busy_handler_reports_arrives_while_it_is_at_it() -> None:
    seen = asyncio.Event()
    reported: list[int] = []

    async def busy(arguments: dict[str, Any], ctx: Context) -> str:
        for number in range(1_000_000):
            await ctx.progress(number)
            if seen.is_set():
                reported.append(number)
                return "seen"
        return "not seen"

    async with reporting(busy) as (served, answer):
        async with asyncio.timeout(WITHIN_S):
            assert b"data: " in await answer.content.readuntil(b"\n\n")
            seen.set()
            text = await answer.text()
    assert '"text":"seen"' in text
    sent = [orjson.loads(frame) for way, frame in served.recorder.seen if way is Direction.OUT]
    numbers = [each["params"]["progress"] for each in sent[:-1]]
    assert numbers == list(range(reported[0] + 1))


async def test_a_client_that_takes_no_stream_gets_none() -> None:
    async def reports(arguments: dict[str, Any], ctx: Context) -> str:
        for number in range(5):
            await ctx.progress(number)
        return "done"

    async with serving() as served:
        tools = served.hosted.server.tools
        tools.replace([*tools, Tool("reports", reports, {"type": "object"})])
        params = {"name": "reports", "arguments": {}, "_meta": {"progressToken": "p"}}
        async with await served.modern("tools/call", params, Accept="application/json") as answer:
            assert answer.content_type == "application/json"
        assert len(served.recorder.seen) == 2
