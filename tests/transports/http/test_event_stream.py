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
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.http import event_stream as module
from mcpdesk.transports.http.event_stream import EventStream
from tests.support.messages import call
from tests.support.patience import WITHIN_S, within
from tests.support.site import Served, events, serving
from tests.transports.http.listening import listening
from tests.transports.http.test_session_outlet import Workshop, event, message, rest


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

    async with listening(flood) as connect, within():
        _, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await over.wait()
    assert sum(put) < 64 << 20


async def test_one_message_may_be_of_any_size() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        stream = EventStream(request)
        stream.put(b"x" * (module.UNREAD_LIMIT + 1))
        return await stream.finish()

    async with listening(answer) as connect, within():
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        seen = 0
        while chunk := await reader.read(1 << 20):
            seen += len(chunk)
    assert seen > module.UNREAD_LIMIT


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
    monkeypatch.setattr(module, "MAX_TURN_S", WITHIN_S)

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

    async with reporting(busy) as (served, answer), within():
        assert b"data: " in await answer.content.readuntil(b"\n\n")
        seen.set()
        text = await answer.text()
    assert '"text":"seen"' in text
    sent = [orjson.loads(frame) for way, frame in served.recorder.seen if way is Direction.OUT]
    numbers = [each["params"]["progress"] for each in sent[:-1]]
    assert numbers == list(range(reported[0] + 1))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.02)
    monkeypatch.setattr(module, "STREAM_AFTER_S", 0.05)
    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.05)


@pytest.mark.usefixtures("quick")
@pytest.mark.requirement("4.10")
async def test_a_call_that_says_nothing_can_be_resumed_too() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        answer = await served.post(call("quiet"), **headers)
        primed = await event(answer)
        assert primed == {"id": "1:0", "data": ""}
        answer.close()
        shop.may_end.set()
        came = await rest(await shop.resume(headers, primed["id"]))
        assert message(came[-1])["result"]["content"][0]["text"] == "at last"


@pytest.mark.usefixtures("quick")
async def test_an_older_client_gets_no_event_it_does_not_know() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session("2025-06-18")
        asked = asyncio.create_task(served.post(call("quiet"), **headers))
        await asyncio.wait({asked}, timeout=0.3)
        shop.may_end.set()
        came = await rest(await asked)
        assert [each["id"] for each in came] == ["1:1"]


def test_the_head_of_a_silent_call_is_sent_within_a_second() -> None:
    assert 2 * module.SWEEP_S + module.STREAM_AFTER_S <= 1


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", ""])
@pytest.mark.parametrize("accept", ["text/event-stream", "application/json, text/event-stream"])
async def test_a_silent_call_over_a_stream_sends_its_head_before_it_ends(revision: str, accept: str) -> None:
    async with serving() as served:
        shop = Workshop(served)
        if revision == "2026-07-28":
            answer = await served.modern("tools/call", {"name": "quiet"}, Accept=accept)
        else:
            headers = await served.session(revision) if revision else {}
            answer = await served.post(call("quiet"), **headers, Accept=accept)
        assert answer.status == 200 and answer.content_type == "text/event-stream"
        assert not shop.may_end.is_set()
        shop.may_end.set()
        assert b"at last" in await answer.read()


@pytest.mark.usefixtures("quick")
async def test_a_silent_call_of_a_client_that_names_no_stream_is_answered_by_plain_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_S", WITHIN_S)
    async with serving() as served:
        shop = Workshop(served)
        asked = asyncio.create_task(served.post(call("quiet"), Accept="*/*"))
        spoken = await served.post(call("quiet"), Accept="text/event-stream")
        assert spoken.content_type == "text/event-stream" and not asked.done()
        shop.may_end.set()
        assert (await asked).content_type == "application/json"


@pytest.mark.usefixtures("quick")
async def test_a_listener_is_shown_life() -> None:
    async with serving() as served:
        answer = await served.modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with within():
            while not (await answer.content.readline()).startswith(b":"):
                pass
        answer.close()
