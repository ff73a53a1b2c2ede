"""Large answers that are almost JSON are read on threads, so other calls are answered in between."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client.answers import large_frames
from mcpdesk.client.child_process import ChildProcess, ProgramCommand
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.client.transport import ClientTransport
from mcpdesk.client.web_socket import WebSocket
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame
from mcpdesk.transports.http.passing import pass_through_routes
from tests.client.test_odd_transports import ABOUT, call, connected
from tests.support.patience import WITHIN_S, until, within
from tests.support.scripted import Seen, http, json, result, scripted
from tests.upstream.test_channel_pass_through import BOTH, passing
from tests.upstream.test_odd_answers import SERVER, called
from tests.upstream.test_upstream import upstream

pytestmark = [pytest.mark.slow, pytest.mark.process]

LARGE = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"n":[' + b"NaN," * 20_000 + b"1]}}"
HABIT = (
    r"""say(b'{"jsonrpc":"2.0","id":%b,"result":{"content":[],"n":[' % number"""
    r""" + b'NaN,' * 20_000 + b'1]}}\n')"""
    r"""; say(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n')"""
)
PROGRAM = (sys.executable, "-c", SERVER.replace("HABIT", HABIT))
"""Answers calls so, and sends a notification behind each answer."""
RESULTS: dict[str, dict[str, Any]] = {"initialize": ABOUT, "tools/list": {"tools": []}, "ping": {}}
UNKNOWN = {"code": -32601, "message": "no"}


class SlowReading:
    """Holds up the reading of large frames, as much hostile text does."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, data: bytes, *, is_line: bool = False) -> ReadFrame:
        """Read a frame; on the loop this would be the end of all calls."""
        if len(data) > QUICK_BYTES:
            self.has_begun.set()
            assert self.may_end.wait(WITHIN_S)
        return read_frame(data, is_line=is_line)

    async def until_begun(self) -> None:
        """Wait until a large frame is being read."""
        assert await asyncio.to_thread(self.has_begun.wait, WITHIN_S)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> SlowReading:
    slow = SlowReading()
    monkeypatch.setattr(large_frames, "read_frame", slow)
    monkeypatch.setattr(pass_through_routes, "read_frame", slow)
    return slow


def answered(seen: Seen) -> bytes:
    """Response of an HTTP server whose calls have a large result."""
    if not seen.body:
        return http(405)
    method = seen.message["method"]
    if "id" not in seen.message:
        return http(202)
    if method == "tools/call":
        return http(200, LARGE % seen.message["id"])
    if method in RESULTS:
        return json(result(seen, RESULTS[method]), Mcp_Session_Id="one")
    return json({"jsonrpc": "2.0", "id": seen.message["id"], "error": UNKNOWN})


async def socket(request: web.BaseRequest) -> web.StreamResponse:
    """The same behind a WebSocket."""
    there = web.WebSocketResponse()
    await there.prepare(request)
    async for message in there:
        asked = message.json()
        if asked["method"] == "initialize":
            await there.send_json({"jsonrpc": "2.0", "id": asked["id"], "result": ABOUT})
        elif "id" in asked:
            await there.send_str((LARGE % asked["id"]).decode())
    return there


@asynccontextmanager
async def program() -> AsyncIterator[ClientTransport]:
    yield ChildProcess(ProgramCommand(PROGRAM))


@asynccontextmanager
async def url() -> AsyncIterator[ClientTransport]:
    async with scripted(answered) as server:
        yield StreamableHttp(server.url, {})


@asynccontextmanager
async def web_socket() -> AsyncIterator[ClientTransport]:
    async with RawTestServer(socket) as server:
        yield WebSocket(str(server.make_url("/ws")).replace("http", "ws", 1), {})


@pytest.mark.parametrize("way", [program, url, web_socket])
async def test_another_call_is_answered_while_a_large_answer_is_read(
    way: Callable[[], AbstractAsyncContextManager[ClientTransport]], reading: SlowReading
) -> None:
    async with way() as transport, connected(transport) as (connection, kinds), scripted(answered) as other:
        methods: list[str] = []
        connection.listeners.append(lambda method, params: methods.append(method))
        calling = asyncio.create_task(call(connection))
        await reading.until_begun()
        async with connected(StreamableHttp(other.url, {})) as (second, _):
            await second.result("ping", {})
        assert not calling.done() and not methods
        reading.may_end.set()
        assert (await calling)["n"][-2:] == [None, 1]
        assert "number" in kinds
        if way is program:
            await until(lambda: methods == ["notifications/message"])


@pytest.mark.parametrize("way", ["program", "url"])
async def test_clients_are_answered_while_a_large_answer_of_another_server_passes(
    way: str, reading: SlowReading
) -> None:
    async with scripted(answered) as server, aiohttp.ClientSession(headers=BOTH) as client:
        target = CommandTarget(PROGRAM) if way == "program" else UrlTarget(server.url)
        async with passing(target) as desk:
            await until(lambda: upstream(desk, "far").state == "ready")
            calling = asyncio.create_task(called(client, desk.host.url("far")))
            await reading.until_begun()
            address = desk.host.url("far").removesuffix("/mcp/far")
            async with aiohttp.ClientSession() as other, other.get(f"{address}/health") as health:
                assert health.status == 200
            reading.may_end.set()
            assert await calling == LARGE % 7


async def test_a_frame_that_fails_holds_up_none_after_it() -> None:
    large = b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN,"b":"' + b"x" * QUICK_BYTES + b'"}}\n'
    small = b'{"jsonrpc":"2.0","id":2,"result":{}}\n'
    passed: list[bytes] = []
    failures: list[object] = []
    is_empty = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

    def hand_on(frame: bytes, read: object) -> None:
        passed.append(frame)
        if frame is large:
            raise KeyError("no such request")

    lane = large_frames.OrderedFrameQueue(hand_on, lambda is_paused: None)
    for frame in (large, small):
        lane.put(frame)
    lane.when_empty(is_empty.set)
    async with within():
        await is_empty.wait()
    assert passed == [large, small] and [type(each) for each in failures] == [KeyError]
