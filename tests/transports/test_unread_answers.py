"""Clients that read no answers hold a bounded amount of memory together; others are still served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from mcpdesk.protocol.codec import estimated_size
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports import unread_answers
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import connections
from mcpdesk.transports.unread_answers import UNREAD
from tests.support.patience import WITHIN_S, until, within
from tests.support.rude import TEXT, UPGRADE, connected_socket, frame, posted, turn
from tests.support.served import Peer
from tests.support.site import Served, serving

SIZE = 8 << 20
"""Bytes of an answer: more than the buffers of the system take."""
ROOM = 3 * SIZE
CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}})
SMALL = CALL.replace(b"large", b"small")
STREAMED = posted(CALL).replace(b"Accept: */*", b"Accept: text/event-stream")


def modern_call() -> dict[str, Any]:
    meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
    params = {"name": "large", "arguments": {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def large(arguments: dict[str, Any], context: Any) -> str:
    return "x" * SIZE


async def small(arguments: dict[str, Any], context: Any) -> str:
    return "y"


async def reports(arguments: dict[str, Any], context: Context) -> str:
    await context.progress(1)
    return "x" * SIZE


@asynccontextmanager
async def bounded() -> AsyncIterator[Served]:
    async with serving(Rules(unread_answers_max_bytes=ROOM + SIZE // 2)) as served:
        tools = [Tool(each.__name__, each, {"type": "object"}) for each in (large, small, reports)]
        served.hosted.server.tools.replace(tools)
        yield served


@asynccontextmanager
async def unread(
    served: Served, count: int, data: bytes, counted: int = SIZE, *, upgrade: bytes = b""
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Clients that ask and read no more than their own buffers take; their answers are begun.

    `counted` are the bytes that count of each, at least. An `upgrade` is answered first.
    """
    place, opened = urlsplit(served.url), []
    try:
        for number in range(count):
            sock = connected_socket(str(place.hostname), int(place.port or 0))
            reader, writer = await asyncio.open_connection(sock=sock, limit=64 << 10)
            opened.append((reader, writer))
            if upgrade:
                writer.write(upgrade)
                await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await until(lambda: UNREAD.held_bytes >= (number + 1) * counted)
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await until(lambda: not (UNREAD.held_bytes))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_S", 0.05)
    monkeypatch.setattr(unread_answers, "WAIT_S", 0.05)


@pytest.mark.parametrize("way", ["JSON", "event stream"])
async def test_a_further_large_answer_is_refused_and_small_ones_pass(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bounded() as served, unread(served, 3, posted(CALL) if way == "JSON" else STREAMED):
        assert ROOM <= UNREAD.held_bytes <= UNREAD.limit
        answer = await served.post(CALL)
        error = (await answer.json())["error"]
        assert answer.status == 503 and answer.headers["Retry-After"]
        assert "unread_answers_max_bytes" in error["message"] and "was carried out" in error["message"]
        assert (await (await served.post(SMALL)).json())["result"]["content"][0]["text"] == "y"
        health = await served.client.get(f"{served.url}/health")
        assert health.status == 200
        figures = await (await served.client.get(f"{served.url}/metrics")).text()
        assert "mcpdesk_unread_answers_refused_total" in figures
    assert caplog.text.count("is not sent") == 1


async def test_a_stream_that_began_ends_with_the_refusal() -> None:
    asked = modern_call()
    asked["params"]["name"] = "reports"
    asked["params"]["_meta"]["progressToken"] = 1
    async with bounded() as served, unread(served, 3, posted(CALL)):
        answer = await served.modern("tools/call", asked["params"])
        text = await answer.text()
        assert answer.status == 200 and answer.content_type == "text/event-stream"
        *_, last = [orjson.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        assert "unread_answers_max_bytes" in last["error"]["message"]


async def test_a_large_answer_waits_until_another_client_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_answers, "WAIT_S", WITHIN_S)
    monkeypatch.setattr(unread_answers, "WAITING_DIVISOR", 1)
    async with bounded() as served, unread(served, 3, posted(CALL)) as readers:
        waiting = asyncio.create_task(served.post(CALL))
        async with within():
            await until(lambda: UNREAD.waiting_bytes)
            await readers[0].readuntil(b"\r\n\r\n")
            await readers[0].readexactly(SIZE)
            answer = await waiting
        assert (await answer.json())["result"]["content"][0]["text"] == "x" * SIZE


async def test_who_waits_for_room_and_leaves_holds_none() -> None:
    async with bounded() as served, unread(served, 3, posted(CALL)):
        held = UNREAD.held_bytes
        waiting = asyncio.create_task(UNREAD.reserve(SIZE // 2 + 1, UNREAD.promise))
        await turn()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert UNREAD.waiting_bytes == 0 and UNREAD.held_bytes == held


async def test_a_pipe_that_is_closed_while_an_answer_is_made_holds_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UNREAD, "limit", SIZE)
    before = UNREAD.held_bytes
    endpoint = Peer().endpoint
    channel, other = (endpoint.channel("stdio", "t", lambda frames: None) for _ in range(2))
    await channel.reserve(SIZE)
    waiting = asyncio.create_task(other.reserve(SIZE // 4))
    await until(lambda: UNREAD.waiting_bytes)
    channel.close()  # its room is given to the other one, which is cancelled before it runs
    assert UNREAD.held_bytes == before + SIZE // 4
    other.close()
    waiting.cancel()
    await asyncio.wait({waiting})
    assert UNREAD.held_bytes == before
    await channel.reserve(SIZE)
    assert UNREAD.held_bytes == before


async def test_clients_that_read_nothing_for_a_time_are_cut_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = UNREAD.cut_count
    async with bounded() as served, unread(served, 2, posted(CALL)):
        monkeypatch.setattr(connections, "UNREAD_S", 0.1)
        listener = served.service._listener
        assert listener is not None
        await until(lambda: not (UNREAD.held_bytes))
        assert UNREAD.cut_count == before + 2 and caplog.text.count("bytes of answers unread") == 2
        figures = await (await served.client.get(f"{served.url}/metrics")).text()
        assert f"mcpdesk_unread_connections_cut_total {UNREAD.cut_count:.1f}" in figures


async def test_a_slow_reader_gets_its_whole_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.5)
    async with bounded() as served, unread(served, 1, posted(CALL)) as (reader,), within():
        await reader.readuntil(b"\r\n\r\n")
        for _ in range(16):
            await reader.readexactly(SIZE // 16)
            await turn()


async def test_websockets_wait_for_the_same_room() -> None:
    asked, counted = frame(TEXT, orjson.dumps(modern_call())), SIZE // 2 - (256 << 10)
    async with bounded() as served, unread(served, 5, asked, counted, upgrade=UPGRADE):
        answer = await served.post(CALL)
        assert answer.status == 503
        # On a new socket an error frame says so, and the socket stays open.
        socket_url = f"{served.url.replace('http', 'ws', 1)}/mcp/sample/ws"
        async with served.client.ws_connect(socket_url) as line:
            await line.send_json(modern_call())
            said = await line.receive_json()
            assert "unread_answers_max_bytes" in said["error"]["message"]
            await line.send_json(
                modern_call() | {"id": 2, "params": modern_call()["params"] | {"name": "small"}}
            )
            assert (await line.receive_json())["result"]["content"][0]["text"] == "y"


def test_the_estimate_counts_every_text_of_a_result() -> None:
    picture = {"type": "image", "data": "x" * LARGE_ANSWER_BYTES, "mimeType": "image/png"}
    inner = {"type": "resource", "resource": {"uri": "a:b", "text": "y" * LARGE_ANSWER_BYTES}}
    body = {"content": [picture, inner], "structuredContent": {"rows": ["z" * LARGE_ANSWER_BYTES]}}
    assert 3 * LARGE_ANSWER_BYTES <= estimated_size(body) <= 3 * LARGE_ANSWER_BYTES + 100
    assert estimated_size({"content": [{"type": "text", "text": "ä"}], "isError": False}) == 1
