"""The transport of the first revision: posted messages, answers on one stream, and an end with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from mcpdesk.bridge.client import Client
from mcpdesk.errors import CallError, CallTimeout, HttpError, InvalidAnswer
from tests.support.desk import running_desk
from tests.support.patience import until, within

Answer = Callable[["Old", dict[str, Any]], Any]


class Old:
    """A server of the old transport: GET /sse names the URL for messages, which are posted there."""

    def __init__(self, answer: Answer, place: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.url = ""
        self.is_mute = False
        """True if a stream does not name the URL for messages."""
        self.is_deaf = False
        """True if posted messages are not acknowledged."""
        self._answer = answer
        self._place = place
        self._out: asyncio.Queue[str | None] = asyncio.Queue()

    async def get(self, request: web.Request) -> web.StreamResponse:
        """The stream, until None is put into it."""
        self._out = out = asyncio.Queue[str | None]()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if not self.is_mute:
            await response.write(f"event: endpoint\ndata: {self._place}\n\n".encode())
        while (text := await out.get()) is not None:
            await response.write(text.encode())
        return response

    async def post(self, request: web.Request) -> web.Response:
        """Accept a message; its answer is sent on the stream."""
        message = await request.json()
        self.seen.append(message)
        if message.get("method") == "initialize":
            told = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old"}}
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": told})
        elif "id" in message and "method" in message:
            self._answer(self, message)
        if self.is_deaf:
            await asyncio.Event().wait()
        return web.Response(status=202)

    def send(self, message: Any) -> None:
        """Put a message on the stream."""
        self._out.put_nowait(web.json_response(message).text.join(["data: ", "\n\n"]))  # type: ignore[union-attr]

    def end(self) -> None:
        """End the stream."""
        self._out.put_nowait(None)


@asynccontextmanager
async def old_server(answer: Answer, place: str = "/messages?id=7") -> AsyncIterator[Old]:
    """Serve until the block ends."""
    old = Old(answer, place)
    app = web.Application()
    app.add_routes([web.get("/sse", old.get), web.post("/messages", old.post)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    old.url = f"http://127.0.0.1:{site.port}/sse"
    try:
        yield old
    finally:
        old.end()
        await runner.cleanup()


def content(old: Old, message: dict[str, Any]) -> None:
    result = {"content": [{"type": "text", "text": message["params"]["name"]}]}
    old.send({"jsonrpc": "2.0", "id": message["id"], "result": result})


def content_or_end(old: Old, message: dict[str, Any]) -> None:
    if message["params"]["name"] == "end":
        old.end()
    else:
        content(old, message)


async def test_own_servers_speak_it_with_the_client(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk, Client(f"{desk.view().servers[0].url}/sse") as client:
        assert (await client.connect())["revision"] == "2024-11-05"
        assert len(await client.list_tools()) == 7
        calls = (client.call_tool("greet", {"name": str(n)}) for n in range(20))
        texts = [each["content"][0]["text"] for each in await asyncio.gather(*calls)]
        assert texts == [f"Hello, {n}!" for n in range(20)]


async def test_server_without_anything_newer_is_found_by_its_stream() -> None:
    async with old_server(content) as old, Client(old.url) as client:
        assert (await client.connect())["name"] == "old"
        assert (await client.call_tool("x"))["content"][0]["text"] == "x"
    assert [each["method"] for each in old.seen] == ["initialize", "notifications/initialized", "tools/call"]
    assert old.seen[0]["params"]["protocolVersion"] == "2024-11-05"


async def test_end_of_the_stream_ends_what_waits() -> None:
    async with old_server(lambda old, message: old.end()) as old, Client(old.url) as client:
        with pytest.raises(HttpError, match="ended the connection"):
            await client.call_tool("x")


async def test_call_after_the_end_of_the_stream_opens_another() -> None:
    async with old_server(content_or_end) as old, Client(old.url) as client:
        with pytest.raises(HttpError, match="ended the connection"):
            await client.call_tool("end")
        calls = await asyncio.gather(*(client.call_tool(str(n)) for n in range(5)))
        assert [each["content"][0]["text"] for each in calls] == list("01234")
    assert [each["method"] for each in old.seen].count("initialize") == 2


async def test_stream_that_could_not_be_opened_again_is_tried_at_the_next_call() -> None:
    async with old_server(content_or_end) as old, Client(old.url) as client:
        with pytest.raises(HttpError, match="ended the connection"):
            await client.call_tool("end")
        old.is_mute = True
        with pytest.raises(CallTimeout):
            await client.call_tool("x", timeout_s=0.3)
        old.is_mute = False
        assert (await client.call_tool("x"))["content"][0]["text"] == "x"


async def test_closing_ends_what_waits() -> None:
    async with old_server(lambda old, message: None) as old, within():
        async with Client(old.url) as client:
            await client.connect()
            work = asyncio.create_task(client.call_tool("x"))
            await until(lambda: len(old.seen) == 3)
        with pytest.raises(CallError, match="closed"):
            await work


async def test_nobody_waits_for_a_server_to_hear_that_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpdesk.client.timing.CLOSE_TIMEOUT_S", 0.1)
    async with old_server(lambda old, message: None) as old, within():
        async with Client(old.url) as client:
            await client.connect()
            old.is_deaf = True
            with pytest.raises(CallTimeout):
                await client.call_tool("x", timeout_s=0.2)
        assert old.seen[-1]["method"] == "notifications/cancelled"


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/messages", "//example.org/x", "https://127.0.0.1/x"])
async def test_place_on_another_server_is_not_posted_to(place: str) -> None:
    async with old_server(content, place) as old, Client(old.url, token="t0k") as client:
        with pytest.raises(InvalidAnswer, match="its endpoint for messages is on another server"):
            await client.connect()
    assert old.seen == []


async def test_event_that_is_no_json_ends_the_connection() -> None:
    def nonsense(old: Old, message: dict[str, Any]) -> None:
        old._out.put_nowait("data: {\n\n")

    async with old_server(nonsense) as old, Client(old.url) as client:
        with pytest.raises(InvalidAnswer, match="an event is not JSON"):
            await client.call_tool("x")
