"""Streams of upstream servers are resumed through the desk, and headers of clients reach these servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import RemoteTarget, UrlTarget
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import WITHIN_S, within
from tests.upstream.test_channel_pass_through import BOTH, NEWEST, answer, noting, official_at, passing

FILES = {
    "mcp.json": '{"name": "near"}',
    "tools/ask.py": """
        from mcpdesk import Context

        async def ask(ctx: Context) -> str:
            person = {"type": "object", "properties": {"name": {"type": "string"}}}
            answer = await ctx.elicit("Who are you?", person)
            return f"{answer.action} {answer.content}"
        """,
}


@asynccontextmanager
async def asking(way: str, tmp_path: Path) -> AsyncIterator[RemoteTarget]:
    """A server with the tool `ask`."""
    if way != "socket":
        async with official_at(way) as target:
            yield target
        return
    async with running_desk(write(tmp_path / "near", FILES), http=True, no_auth=True) as there:
        yield UrlTarget(there.host.url("near").replace("http", "ws", 1) + "/ws", kind="ws")


async def event(content: aiohttp.StreamReader) -> tuple[str, Any]:
    """The id and the message of the next event; none for one without a message, and at the end."""
    lines = (await content.readuntil(b"\n\n")).decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":") and ": " in line)
    return fields.get("id", ""), json.loads(fields.get("data") or "null")


@pytest.mark.process
@pytest.mark.parametrize("way", ["program", "named", "socket"])
async def test_a_stream_that_broke_off_goes_on_behind_the_last_event_its_client_saw(
    way: str, tmp_path: Path
) -> None:
    async with (
        within(within_s=2 * WITHIN_S),
        asking(way, tmp_path) as target,
        passing(target) as desk,
        aiohttp.ClientSession(headers=BOTH) as http,
    ):
        url = desk.host.url("far")
        about = {"clientInfo": {"name": "t", "version": "1"}, "capabilities": {"elicitation": {}}}
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize"}
        params = {"protocolVersion": "2025-11-25", **about}
        async with http.post(url, json=opening | {"params": params}) as got:
            session = {"Mcp-Session-Id": got.headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-11-25"}
        begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with http.post(url, json=begun, headers=session) as got:
            assert got.status == 202
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
        async with http.post(url, json=call, headers=session) as stream:
            start, nothing = await event(stream.content)
            seen, question = await event(stream.content)
            assert (nothing, question["method"]) == (None, "elicitation/create")
        reply = {"jsonrpc": "2.0", "id": question["id"]}
        said = {"result": {"action": "accept", "content": {"name": "Ada"}}}
        async with http.post(url, json=reply | said, headers=session) as got:
            assert got.status == 202
        for last, expected in ((seen, [1]), (start, [question["id"], 1])):
            async with http.get(url, headers=session | {"Last-Event-ID": last}) as stream:
                assert await event(stream.content) == (last, None), "an id to resume it again with"
                found = [await event(stream.content) for _ in expected]
                assert [message["id"] for _, message in found] == expected
                assert "Ada" in str(found[-1][1]["result"])
                assert await stream.content.read() == b""
        async with http.get(url, headers=session | {"Last-Event-ID": "77:1"}) as got:
            assert got.status == 400
            assert "that stream is no longer stored" in (await got.json())["error"]["message"]
        async with http.get(url, headers=session) as stream, http.get(url, headers=session) as second:
            assert (stream.status, second.status) == (200, 409)


@pytest.mark.parametrize("kind", ["ws", "sse"])
async def test_headers_of_a_client_reach_the_server_and_only_equal_ones_share_a_connection(kind: str) -> None:
    seen: list[dict[str, str]] = []

    def answered(data: str | bytes) -> str:
        asked = json.loads(data)
        return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"resultType": "complete"}})

    async def socket(request: web.Request) -> web.StreamResponse:
        there = web.WebSocketResponse()
        seen.append({name.lower(): value for name, value in request.headers.items()})
        await there.prepare(request)
        async for message in there:
            await there.send_str(answered(message.data))
        return there

    told: dict[str, asyncio.Queue[str]] = {}

    async def stream(request: web.Request) -> web.StreamResponse:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        there = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await there.prepare(request)
        number = str(len(told))
        told[number] = asyncio.Queue()
        await there.write(f"event: endpoint\ndata: /post/{number}\n\n".encode())
        while True:
            await there.write(f"event: message\ndata: {await told[number].get()}\n\n".encode())

    async def post(request: web.Request) -> web.Response:
        told[request.match_info["number"]].put_nowait(answered(await request.read()))
        return web.Response(status=202)

    app = web.Application()
    app.router.add_get("/ws", socket)
    app.router.add_get("/sse", stream)
    app.router.add_post("/post/{number}", post)
    async with TestServer(app) as server:
        url = str(server.make_url(f"/{kind}"))
        target = UrlTarget(url.replace("http", "ws", 1) if kind == "ws" else url, kind=kind)
        plan = UpstreamPlan("far", target, Reach(headers=(("X-Ours", "ours"),)))
        async with (
            running_desk(upstreams=[plan], http=True, no_auth=True) as desk,
            aiohttp.ClientSession(headers=BOTH) as http,
        ):
            meta = {
                "io.modelcontextprotocol/protocolVersion": NEWEST,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
            asked = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/list"}
            key = {desk.host.rules.api_key_header: desk.host.rules.api_key or "any"}
            for more in (
                {"X-Team": "a", "X-Ours": "theirs"},
                {"X-Team": "a", "X-Ours": "theirs", "traceparent": "00-1-2-01"},
                {"X-Team": "b"},
                {"X-Team": "a", "Authorization": "Bearer mine"},
            ):
                status, _ = await answer(http, desk.host.url("far"), listing, asked | key | more)
                assert status == 200, more
        theirs = [each for each in seen if "x-team" in each]
        found = [(each["x-team"], each.get("x-ours"), each.get("authorization")) for each in theirs]
        assert found == [("a", "ours", None), ("b", "ours", None), ("a", None, "Bearer mine")]
        kept_back = {"mcp-method", "mcp-protocol-version", "cookie", *map(str.lower, key)}
        assert all(kept_back.isdisjoint(each) for each in theirs)


@pytest.mark.process
async def test_a_program_is_shared_whatever_headers_its_clients_send(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "whoami", "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
        found = set()
        for team in ("a", "b"):
            _, told = await answer(http, desk.host.url("far"), message, headers | {"X-Team": team})
            found.add(told["result"]["content"][0]["text"])
        assert len(found) == 1
