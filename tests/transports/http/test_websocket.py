"""WebSockets as clients of both eras meet them."""

from __future__ import annotations

import asyncio
import base64
import socket
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import aiohttp
import orjson
import pytest

from mcpdesk.hosting.channel import FrameChannel, HostedDialogue
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY, request_meta
from mcpdesk.recorder.record import Direction
from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import websocket as module
from tests.support.patience import WITHIN_S, until
from tests.support.site import Served, serving

Socket: TypeAlias = "aiohttp.ClientWebSocketResponse[Literal[True]]"
ECHO = {"name": "echo", "arguments": {"text": "hi"}}
STEPS = {"name": "steps", "_meta": {"progressToken": "p"}}


async def opened(served: Served, path: str = "/mcp/sample/ws", **more: Any) -> Socket:
    ws: Socket = await served.client.ws_connect(served.url + path, **more)
    return ws


async def request(ws: Socket, identifier: Any, method: str, params: dict[str, Any] | None = None) -> None:
    message = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params or {}}
    await ws.send_str(orjson.dumps(message).decode())


async def modern(ws: Socket, method: str, params: dict[str, Any], number: Any = 1) -> None:
    meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"}) | params.get("_meta", {})
    await request(ws, number, method, params | {"_meta": meta})


async def message(ws: Socket) -> dict[str, Any]:
    came = await ws.receive(WITHIN_S)
    assert came.type is aiohttp.WSMsgType.TEXT
    return dict(orjson.loads(came.data))


async def shake_hands(ws: Socket, revision: str = "2025-11-25") -> dict[str, Any]:
    client = {"name": "web", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    await request(ws, 0, "initialize", params)
    answer = await message(ws)
    await ws.send_str('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return answer


def open_dialogues(served: Served) -> list[HostedDialogue]:
    return list(served.hosted.dialogues.values())


async def running(served: Served) -> Call:
    """The call in flight, once there is one."""
    calls: list[Call] = []

    def found() -> bool:
        calls[:] = [call for each in open_dialogues(served) for call in each.conversation.running]
        return bool(calls)

    await until(found)
    return calls[0]


async def test_a_session_is_recorded_with_its_revision_and_peer() -> None:
    async with serving() as served:
        ws = await opened(served, protocols=("mcp",))
        assert ws.protocol == "mcp"
        assert (await shake_hands(ws, "2025-06-18"))["result"]["protocolVersion"] == "2025-06-18"
        await request(ws, 1, "tools/call", ECHO)
        assert (await message(ws))["result"]["content"][0]["text"] == "hi"
        await ws.close()
        info = max(served.recorder.connections.values(), key=lambda each: each.number)
        assert (info.transport, info.revision, info.peer) == ("websocket", "2025-06-18", "web 1")


async def test_the_stateless_era_and_its_subscriptions() -> None:
    async with serving() as served:
        ws = await opened(served)
        await modern(ws, "tools/call", ECHO)
        assert (await message(ws))["result"]["resultType"] == "complete"
        await modern(ws, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "s")
        assert (await message(ws))["method"] == "notifications/subscriptions/acknowledged"
        served.peer.services.subscriptions.list_changed("sample", "tool")
        changed = await message(ws)
        assert changed["params"]["_meta"][SUBSCRIPTION_KEY] == "s"
        await ws.close()


async def test_the_key_comes_by_header_or_query_and_is_not_recorded() -> None:
    async with serving(Rules(api_key="secret")) as served:
        for path in ("/mcp/sample/ws", "/mcp/sample/ws?api_key=wrong"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await opened(served, path)
            assert refused.value.status == 403
        ws = await opened(served, headers={"X-API-Key": "secret"})
        await ws.close()
        ws = await opened(served, "/mcp/sample/ws?api_key=secret&x=1")
        await shake_hands(ws)
        await ws.close()
        [note] = served.recorder.notes
        assert note.line == "GET /mcp/sample/ws?api_key=••••&x=1 HTTP/1.1"
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with served.client.post(f"{served.url}/mcp/sample?api_key=secret", json=ping) as answer:
            assert answer.status == 403


async def test_no_upgrade_and_a_bad_handshake_are_refused_in_words() -> None:
    async with serving() as served:
        async with served.client.get(f"{served.url}/mcp/sample/ws") as answer:
            assert (answer.status, answer.headers["Upgrade"]) == (426, "websocket")
        upgrade = {"Upgrade": "websocket", "Connection": "upgrade"}
        async with served.client.get(f"{served.url}/mcp/sample/ws", headers=upgrade) as answer:
            assert answer.status == 400
            assert "error" in await answer.json()
        async with served.client.post(f"{served.url}/mcp/sample/ws") as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "GET")


async def test_what_is_no_message_is_answered_and_the_socket_goes_on() -> None:
    async with serving() as served:
        ws = await opened(served)
        for frame, code in (("{", -32700), ("[]", -32600), ("5", -32600), ("", -32700)):
            await ws.send_str(frame)
            assert (await message(ws))["error"]["code"] == code
        assert (await shake_hands(ws))["result"]
        await ws.close()


async def test_binary_frames_close_with_1003() -> None:
    async with serving() as served:
        ws = await opened(served)
        await ws.send_bytes(b"{}")
        assert (await ws.receive(WITHIN_S)).type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 1003


async def test_a_message_over_the_limit_closes_with_1009() -> None:
    async with serving(Rules(max_body_bytes=2048)) as served:
        ws = await opened(served)
        await ws.send_str("x" * 2048)
        assert (await message(ws))["error"]["code"] == -32700
        await ws.send_str("x" * 2049)
        assert (await ws.receive(WITHIN_S)).type is aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 1009


@pytest.mark.parametrize("is_modern", [True, False])
@pytest.mark.parametrize("is_cut", [True, False])
async def test_the_end_of_the_connection_cancels_what_runs(is_modern: bool, is_cut: bool) -> None:
    async with serving() as served:
        ws = await opened(served)
        if is_modern:
            await modern(ws, "tools/call", {"name": "forever"})
        else:
            await shake_hands(ws)
            await request(ws, 1, "tools/call", {"name": "forever"})
        call = await running(served)
        if is_cut:
            ws._writer.transport.abort()
        else:
            await ws.close()
        await until(lambda: call.task is None and not open_dialogues(served))
        assert call.stop == "the client disconnected"


async def test_the_handler_sees_the_headers_it_was_opened_with() -> None:
    async def seen(arguments: dict[str, Any], context: Context) -> Any:
        return (
            f"{context.request.transport} {context.request.headers['x-team']} {context.request.environment}"
        )

    async with serving() as served:
        tools = [*served.peer.server.tools, Tool("seen", seen, {"type": "object"})]
        served.peer.server.tools.replace(tools)
        served.hosted.server.tools.replace(tools)
        ws = await opened(served, headers={"X-Team": "blue"})
        await modern(ws, "tools/call", {"name": "seen"})
        assert (await message(ws))["result"]["content"][0]["text"] == "websocket blue {}"
        await ws.close()


@pytest.mark.slow
async def test_a_peer_that_reads_nothing_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HIGH_WATER", 1 << 20)
    paused = asyncio.Event()
    monkeypatch.setattr(FrameChannel, "pause", lambda channel: paused.set())
    async with serving() as served:
        host, port = served.url.removeprefix("http://").split(":")
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader, writer = await asyncio.open_connection(sock=sock, limit=4096)
        key = base64.b64encode(b"0123456789abcdef").decode()
        writer.write(
            f"GET /mcp/sample/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
        params = {"name": "echo", "arguments": {"text": "x" * 60_000}, "_meta": meta}

        def send(number: int) -> None:
            body = orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
            writer.write(b"\x81\xfe" + len(body).to_bytes(2, "big") + b"\0\0\0\0" + body)

        def frames(direction: Direction) -> int:
            return sum(way is direction for way, _ in served.recorder.seen)

        answered = 0
        while not paused.is_set():
            send(answered)
            answered += 1
            await until(lambda: frames(Direction.OUT) == answered)
        assert answered < 400
        for number in range(answered, answered + 20):
            send(number)
        for _ in range(200):
            await asyncio.sleep(0)
        assert frames(Direction.IN) <= answered + 1, "the reader may have waited for one already"
        # It does not hold up the end either.
        await served.service.close()
        await until(lambda: not open_dialogues(served))
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
