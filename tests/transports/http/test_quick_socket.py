"""Texts go past the waiting task, and never past each other."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest

from mcpdesk.hosting.channel import Channel
from mcpdesk.transports.http import quick_socket as module
from tests.support.patience import WITHIN_S
from tests.support.site import serving

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def frame(data: bytes, kind: int = TEXT, last: bool = True) -> bytes:
    """A frame of a client, masked with zeros."""
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes((kind | (0x80 if last else 0),)) + size + b"\0\0\0\0" + data


def ping(identifier: Any, **params: Any) -> bytes:
    """A request that is answered before any handshake."""
    return orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": "ping", "params": params})


class Raw:
    """A client that says when which bytes leave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def next(self) -> tuple[int, bytes]:
        """Kind and contents of the next frame."""
        async with asyncio.timeout(WITHIN_S):
            kind, size = await self.reader.readexactly(2)
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
            return kind & 0x0F, await self.reader.readexactly(size)

    async def ids(self, count: int) -> list[Any]:
        """Those of the next answers."""
        return [orjson.loads((await self.next())[1]).get("id") for _ in range(count)]


@asynccontextmanager
async def connected() -> AsyncIterator[Raw]:
    async with serving() as served:
        host, port = served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        key = base64.b64encode(b"0123456789abcdef").decode()
        writer.write(
            f"GET /mcp/sample/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        raw = Raw(reader, writer)
        writer.write(frame(ping("first")))
        assert await raw.ids(1) == ["first"]
        yield raw
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_texts_that_come_together_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    really = Channel.take_all

    def take_all(channel: Channel, frames: list[bytes], *more: Any) -> None:
        taken.append(len(frames))
        really(channel, frames, *more)

    monkeypatch.setattr(Channel, "take_all", take_all)
    async with connected() as raw:
        raw.writer.write(b"".join(frame(ping(number)) for number in range(20)))
        assert await raw.ids(20) == list(range(20))
    assert sum(taken) == 20 and len(taken) <= 2


async def test_nothing_is_overtaken_whatever_lies_between() -> None:
    async with connected() as raw:
        for turn in range(5):
            data = frame(ping(1)) + frame(b"are you there?", PING) + frame(ping(2, jwt="none"))
            data += frame(ping(3)) + frame(ping(4)[:9], last=False) + frame(ping(4)[9:], kind=0)
            half = 40 * turn
            raw.writer.write(data[:half])
            await raw.writer.drain()
            raw.writer.write(data[half:])
            came = [await raw.next() for _ in range(5)]
            assert (PONG, b"are you there?") in came
            assert [orjson.loads(text)["id"] for kind, text in came if kind == TEXT] == [1, 2, 3, 4]


async def test_texts_behind_a_binary_frame_or_the_end_are_not_taken() -> None:
    for kind, code in ((BINARY, 1003), (CLOSE, 1000)):
        async with connected() as raw:
            data = code.to_bytes(2, "big") if kind == CLOSE else b"x"
            raw.writer.write(frame(ping(1)) + frame(data, kind) + frame(ping(2)))
            assert await raw.ids(1) == [1]
            kind, data = await raw.next()
            assert (kind, int.from_bytes(data[:2], "big")) == (CLOSE, code)


async def test_a_peer_that_does_not_keep_up_meets_the_task_again(monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[bytes] = []
    really = module.TextQueue.feed_data

    def feed_data(queue: module.TextQueue, data: Any, size: int) -> None:
        if not queue.is_idle:
            queued.append(data.data)
        really(queue, data, size)

    monkeypatch.setattr(module.TextQueue, "feed_data", feed_data)
    monkeypatch.setattr("mcpdesk.transports.http.websocket.HIGH_WATER", -1)  # it never keeps up
    async with connected() as raw:
        for number in range(6):
            raw.writer.write(frame(ping("x" * 90 + str(number))) * 2)
            assert len(await raw.ids(2)) == 2
    assert len(queued) > 1  # not the first one alone


async def test_what_comes_behind_the_end_is_nothing_and_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    for behind in (b"", frame(ping(2))):
        async with connected() as raw:
            raw.writer.write(frame((1000).to_bytes(2, "big"), CLOSE))
            assert (await raw.next())[0] == CLOSE
            raw.writer.write(behind)
            assert await raw.reader.read() == b""
    assert not caplog.records, caplog.text


async def test_a_silent_peer_is_pinged_and_whatever_it_says_is_a_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcpdesk.transports.http.websocket.HEARTBEAT_S", 0.6)
    async with connected() as raw:
        for number in range(3):
            assert (await raw.next())[0] == PING
            raw.writer.write(frame(ping(number)))
            assert await raw.ids(1) == [number]
        assert (await raw.next())[0] == PING
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await raw.next()


async def test_who_talks_is_pinged_later(monkeypatch: pytest.MonkeyPatch) -> None:
    due: list[float] = []
    really = module.QuickSocket._lives

    def heard(quick: module.QuickSocket) -> None:
        really(quick)
        due.append(quick._heartbeat_when)

    monkeypatch.setattr(module.QuickSocket, "_lives", heard)
    async with connected() as raw:
        for number in range(3):
            raw.writer.write(frame(ping(number)))
            assert await raw.ids(1) == [number]
    assert len(due) >= 4 and due[:4] == sorted(set(due[:4]))
