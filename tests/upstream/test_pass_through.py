"""Clients that reach a server that is not ours through the desk, over real sockets."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.support.patience import WITHIN_S

ASKED = b'{"jsonrpc": "2.0",  "id":7, "method":"tools/call", "params":{"name":"x","arguments":{}}}'
ANSWER = b'{"jsonrpc":"2.0",   "id":7, "result":{"content":[]}}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Elsewhere:
    """A server that keeps what it was sent by others than the desk itself."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.go_on = asyncio.Event()
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer by what the client's header asks for."""
        body = await request.read()
        way = request.headers.get("X-Way")
        if way is None:
            return web.Response(status=400)
        self.asked.append((dict(request.headers), body))
        if way == "stream":
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            try:
                await response.write(b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n')
                await self.go_on.wait()
                await response.write(b"data: " + ANSWER + b"\n\n")
            except asyncio.CancelledError:
                self.left.set()
                raise
            return response
        if way == "large":
            return web.Response(body=b"[" + b"1," * (25 << 20) + b"1]", content_type="application/json")
        headers = {"X-Theirs": "kept", "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*"}
        return web.Response(status=int(way), body=ANSWER, content_type="application/json", headers=headers)


async def through(way: str, use: Any, reach: Reach | None = None, **flags: Any) -> None:
    """Let `use` talk with the server through a desk."""
    there = Elsewhere()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/mcp", there.answer)
    async with (
        TestServer(app, handler_cancellation=True) as server,
        aiohttp.ClientSession(headers={"X-Way": way}) as session,
    ):
        plan = UpstreamPlan("there", UrlTarget(str(server.make_url("/mcp"))), reach or Reach())
        async with running_desk(upstreams=[plan], http=True, **flags) as desk:
            url = desk.host.url("there")
            assert desk.view().servers[0].url == url
            async with asyncio.timeout(WITHIN_S):
                await use(session, url, there, desk)


async def test_a_body_and_its_answer_stay_byte_for_byte_and_are_recorded() -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: Any) -> None:
        sent = JSON | {"Cookie": "jwt=x", "X-Mine": "too", "Authorization": "Bearer mine"}
        async with session.post(url, data=ASKED, headers=sent) as got:
            assert (got.status, await got.read(), got.headers["X-Theirs"]) == (418, ANSWER, "kept")
            assert "Set-Cookie" not in got.headers and "Access-Control-Allow-Origin" not in got.headers
        headers, body = there.asked[0]
        assert (body, headers["X-Mine"], headers["Authorization"]) == (ASKED, "too", "Bearer mine")
        assert "Cookie" not in headers and url.split("/")[2] != headers["Host"]
        index = desk.traffic
        index.catch_up()
        found = [index.exchange(number) for number in range(len(index.exchanges))]
        assert "tools/call" in [each.method for each in found if each.server == "there"]

    await through("418", use)


async def test_events_are_passed_on_as_they_come_and_a_client_that_leaves_is_noticed_there() -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: Any) -> None:
        async with session.post(url, data=ASKED, headers=JSON) as got:
            assert b"progress" in await got.content.readuntil(b"\n\n")
            there.go_on.set()
            assert await got.content.read() == b"data: " + ANSWER + b"\n\n"
        there.go_on.clear()
        got = await session.post(url, data=ASKED, headers=JSON)
        await got.content.readuntil(b"\n\n")
        got.close()
        await there.left.wait()

    await through("stream", use)


async def test_fifty_megabytes_pass_both_ways_if_the_setting_allows() -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: Any) -> None:
        large = b'"' + b"x" * (50 << 20) + b'"'
        async with session.post(url, data=io.BytesIO(large), headers=JSON) as got:
            assert len(await got.read()) == (50 << 20) + 3
        assert there.asked[0][1] == large

    await through("large", use, max_body_bytes=52 << 20)


async def test_a_body_over_the_limit_is_refused_here() -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: Any) -> None:
        async with session.post(url, data=b"1" * 3000, headers=JSON) as got:
            assert got.status == 413
        assert not there.asked

    await through("200", use, max_body_bytes=2000)


async def test_who_uses_our_token_needs_our_key_which_is_not_sent_on() -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: Any) -> None:
        async with session.post(url, data=ASKED, headers=JSON) as got:
            assert got.status == 403
        key = {"X-API-Key": desk.host.rules.api_key}
        async with session.post(url, data=ASKED, headers=JSON | key) as got:
            assert got.status == 200
        async with session.post(url, data=ASKED, headers=JSON | key | {"Origin": "http://evil.test"}) as got:
            assert got.status == 403
        shown = desk.client_config("there", "cursor")
        assert url in shown and desk.host.rules.api_key in shown
        assert [headers["Authorization"] for headers, _ in there.asked] == ["Bearer secret"]
        assert "X-API-Key" not in there.asked[0][0]

    await through("200", use, Reach(token="secret"))


async def test_a_server_that_cannot_be_reached_is_told_of() -> None:
    plan = UpstreamPlan("there", UrlTarget("http://127.0.0.1:9/mcp"))
    async with (
        running_desk(upstreams=[plan], http=True) as desk,
        aiohttp.ClientSession() as session,
        session.post(desk.host.url("there"), data=ASKED, headers=JSON) as got,
    ):
        assert (got.status, "cannot be asked" in await got.text()) == (502, True)
