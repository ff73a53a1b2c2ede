"""Event streams toward peers that do not read."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import stream as module
from mcpdesk.transports.http.listener import Listener
from mcpdesk.transports.http.stream import EventStream


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

    listener = Listener(flood, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(5):
        await over.wait()
    assert sum(put) < 64 << 20
    writer.close()
    server.close()
    await listener.shutdown(1)


async def test_one_message_may_be_of_any_size() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        stream = EventStream(request)
        stream.put(b"x" * (module.UNREAD_LIMIT + 1))
        return await stream.finish()

    listener = Listener(answer, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(5):
        seen = 0
        while chunk := await reader.read(1 << 20):
            seen += len(chunk)
    assert seen > module.UNREAD_LIMIT
    writer.close()
    server.close()
    await listener.shutdown(1)


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
        await asyncio.wait_for(all_came.wait(), 5)
        return await stream.finish()

    listener = Listener(answer, Rules)
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    async with asyncio.timeout(5):
        await reader.readuntil(b"y")
        all_came.set()
        await reader.read()
    assert sum(sizes) == 1_000_001
    assert 1_000_000 / module.BURST < len(sizes) < 500
    assert max(sizes) < 2 * module.BURST
    writer.close()
    server.close()
    await listener.shutdown(1)
