"""Servers behind a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.web_socket import SocketChannel, WebSocket
from mcpdesk.errors import CallError, DeskUserError, HttpError
from tests.support.patience import within


class Scripted:
    """Answers requests; closes the first socket on a request with the method `close_at`."""

    def __init__(self, close_at: str = "") -> None:
        self.sockets = 0
        self.protocols: list[str | None] = []
        self._close_at = close_at

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a socket."""
        if request.headers.get("X-Key") != "k":
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=("mcp",))
        await socket.prepare(request)
        self.sockets += 1
        self.protocols.append(socket.ws_protocol)
        async for message in socket:
            asked = orjson.loads(message.data)
            if asked["method"] == self._close_at and self.sockets == 1:
                await socket.close(code=1011)
                break
            if "id" in asked:
                await socket.send_str(orjson.dumps(_answer(asked)).decode())
        return socket


def _answer(asked: dict[str, object]) -> dict[str, object]:
    answer: dict[str, object] = {"jsonrpc": "2.0", "id": asked["id"]}
    match asked["method"]:
        case "initialize":
            agreed = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x"}}
            return answer | {"result": agreed}
        case "tools/list":
            return answer | {"result": {"tools": []}}
    return answer | {"error": {"code": -32601, "message": "no"}}


@asynccontextmanager
async def _connected(server: Scripted, key: str = "k") -> AsyncIterator[ServerConnection]:
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    transport = WebSocket(f"ws://127.0.0.1:{site.port}/ws?x=secret", {"X-Key": key})
    connection = ServerConnection(transport, {"name": "test", "version": "1"})
    try:
        async with within():
            yield connection
    finally:
        await connection.close()
        await runner.cleanup()


async def test_a_server_is_spoken_to_in_text_frames() -> None:
    server = Scripted()
    async with _connected(server) as connection:
        assert await connection.list_all("tools/list", "tools") == []
        assert (await connection.open()).revision.name == "2025-06-18"
    assert server.protocols == ["mcp"]


async def test_a_refusal_is_told_without_the_query() -> None:
    async with _connected(Scripted(), key="wrong") as connection:
        with pytest.raises(HttpError, match="403") as refused:
            await connection.open()
    assert "secret" not in str(refused.value)


async def test_a_closed_socket_fails_what_waits_and_the_next_request_opens_another() -> None:
    server = Scripted(close_at="tools/list")
    async with _connected(server) as connection:
        with pytest.raises(CallError, match="code 1011"):
            await connection.list_all("tools/list", "tools")
        assert await connection.list_all("tools/list", "tools") == []
    assert server.sockets == 2


async def test_nobody_there_is_said() -> None:
    connection = ServerConnection(WebSocket("ws://127.0.0.1:9/ws", {}), {"name": "test", "version": "1"})
    with pytest.raises(HttpError, match="cannot be reached"):
        await connection.open()
    await connection.close()


@pytest.mark.parametrize("url", ["ws://", "ws://user:secret@host/ws", "wss://h o/ws"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(DeskUserError):
        WebSocket(url, {})


async def test_a_redirect_is_not_followed_with_our_key() -> None:
    received: list[str] = []

    async def stolen(request: web.BaseRequest) -> web.Response:
        received.append(request.headers.get("X-Key", ""))
        return web.Response(status=404)

    async def redirected(request: web.BaseRequest) -> web.Response:
        return web.Response(status=307, headers={"Location": f"http://localhost:{ports[0]}/stolen"})

    ports: list[int] = []
    async with AsyncExitStack() as stack:
        for handler in (stolen, redirected):
            runner = web.ServerRunner(web.Server(handler))
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            ports.append(runner.addresses[0][1])
        socket = WebSocket(f"ws://127.0.0.1:{ports[1]}/", {"X-Key": "k"})
        with pytest.raises(HttpError, match=r"HTTP 307: it redirects to http://localhost:\d+/stolen"):
            await socket.open(lambda message: None)
        assert received == []


async def test_a_message_that_its_receiver_fails_on_does_not_end_the_reading() -> None:
    loop, reported = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))
    received: asyncio.Queue[bytes] = asyncio.Queue()
    ended: asyncio.Future[CallError] = loop.create_future()

    async def there(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp",))
        await socket.prepare(request)
        for text in ("first", "second", "third"):
            await socket.send_str(text)
        return socket

    def on_data(data: bytes, read: object) -> None:
        if data == b"first":
            raise ValueError("a bug")
        if data == b"third":
            raise CallError("refused")
        received.put_nowait(data)

    async with RawTestServer(there) as server:
        url = str(server.make_url("/")).replace("http", "ws", 1)
        channel = await SocketChannel.open(url, {}, on_data, ended.set_result)
        async with within():
            assert await received.get() == b"second" and reported == ["a bug"]
            assert str(await ended) == "refused"
            await channel.end()
