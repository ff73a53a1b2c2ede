"""Clients that reach an upstream server through the desk, over real sockets."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.paths import sample_servers
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.transports.http.passing import pass_through_routes, passed_clients
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import official
from tests.support.desk import running_desk
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S, until, within

ROOT = Path(__file__).parents[2]
ASKED = b'{"jsonrpc": "2.0",  "id":7, "method":"tools/call", "params":{"name":"x","arguments":{}}}'
ANSWER = b'{"jsonrpc":"2.0",   "id":7, "result":{"content":[]}}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def large(member: bytes) -> bytes:
    """A request (`"method":"tools/call","params"`) or an answer (`"result"`) of fifty megabytes."""
    return b'{"jsonrpc":"2.0","id":7,%b:{"name":"x","content":["%b"]}}' % (member, b"x" * (50 << 20))


ODD = b"{'jsonrpc':'2.0','id':7,'result':{'text':'" + b"x" * QUICK_BYTES + b"'}}"
"""An answer that is almost JSON."""


class OtherProcesses:
    """A server that stores the requests of all clients except the desk."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.go_on = asyncio.Event()
        self.begun = asyncio.Event()
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer as the client's header requests."""
        if request.content_length == 20 << 20:
            self.begun.set()
        try:
            body = await request.read()
        except asyncio.CancelledError:
            self.left.set()
            raise
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
        if way == "cut":
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "9"})
            await response.prepare(request)
            await response.write(b"{")
            assert request.transport is not None
            request.transport.close()
            return response
        if way == "large events":
            told = b'data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
            told += b"data: " + large(b'"result"') + b"\n\n"
            return web.Response(body=told, content_type="text/event-stream")
        if way == "odd events":
            return web.Response(body=b"data: %b\n\n" % ODD, content_type="text/event-stream")
        if way == "large":
            return web.Response(body=large(b'"result"'), content_type="application/json")
        headers = {"X-Request-Id": "kept", "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*"}
        return web.Response(status=int(way), body=ANSWER, content_type="application/json", headers=headers)


async def through(way: str, use: Any, reach: Reach | None = None, **flags: Any) -> None:
    """Let `use` talk with the server through a desk."""
    there = OtherProcesses()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/mcp", there.answer)
    async with (
        TestServer(app, handler_cancellation=True) as server,
        http_client(headers={"X-Way": way}) as session,
    ):
        plan = UpstreamPlan("there", UrlTarget(str(server.make_url("/mcp"))), reach or Reach())
        async with running_desk(upstreams=[plan], http=True, **flags) as desk:
            url = desk.host.url("there")
            assert desk.view().servers[0].url == url
            async with within():
                await use(session, url, there, desk)


async def test_a_body_and_its_answer_stay_byte_for_byte_and_are_recorded() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        sent = JSON | {"Cookie": "jwt=x", "X-Mine": "too", "Authorization": "Bearer mine"}
        async with session.post(url, data=ASKED, headers=sent) as got:
            assert (got.status, await got.read(), got.headers["X-Request-Id"]) == (418, ANSWER, "kept")
            assert "Set-Cookie" not in got.headers and "Access-Control-Allow-Origin" not in got.headers
        headers, body = there.asked[0]
        assert (body, headers["X-Mine"], headers["Authorization"]) == (ASKED, "too", "Bearer mine")
        assert "Cookie" not in headers and url.split("/")[2] != headers["Host"]
        index = desk.traffic
        index.catch_up()
        found = [index.exchange(number) for number in range(len(index.exchanges))]
        assert "tools/call" in [each.method for each in found if each.server == "there"]
        async with session.get(f"{url.removesuffix('/mcp/there')}/metrics") as got:
            assert "mcpdesk_passed_messages_dropped_total 0.0" in (await got.text()).splitlines()

    await through("418", use)


async def test_the_path_without_a_name_leads_to_the_first_server_also_if_it_is_not_ours() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        async with session.post(url.removesuffix("/there"), data=ASKED, headers=JSON) as got:
            assert (got.status, await got.read()) == (418, ANSWER)
        assert [body for _, body in there.asked] == [ASKED]

    await through("418", use)


@pytest.mark.parametrize("is_named_first", [False, True])
async def test_the_path_without_a_name_leads_to_the_server_that_was_named_first(is_named_first: bool) -> None:
    far = UpstreamPlan("there", UrlTarget("http://127.0.0.1:1/mcp"), leads=is_named_first)
    async with (
        running_desk(sample_servers() / "hello", upstreams=[far], http=True, no_auth=True) as desk,
        http_client() as session,
    ):
        url = desk.host.url("there").removesuffix("/there")
        async with session.post(url, data=ASKED.replace(b"tools/call", b"tools/list"), headers=JSON) as got:
            expected = "there cannot be asked" if is_named_first else "greet"
            assert expected in await got.text()
        async with session.get(f"{url}/server-card") as got:
            assert got.status == (404 if is_named_first else 200)


async def test_events_are_passed_on_as_they_come_and_a_client_that_leaves_is_noticed_there() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        async with session.post(url, data=ASKED, headers=JSON) as got:
            assert b"progress" in await got.content.readuntil(b"\n\n")
            there.go_on.set()
            assert await got.content.read() == b"data: " + ANSWER + b"\n\n"
        there.go_on.clear()
        got = await session.post(url, data=ASKED, headers=JSON)
        await got.content.readuntil(b"\n\n")
        got.close()
        await there.left.wait()

        def statuses() -> list[Status]:
            desk.traffic.catch_up()
            return [each.status for each in desk.traffic.exchanges if each.method == "tools/call"]

        await until(lambda: statuses() == [Status.OK, Status.LOST])

    await through("stream", use)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["large", "large events"])
async def test_fifty_megabytes_pass_both_ways_and_what_is_too_long_to_keep_is_still_paired(way: str) -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        sent = large(b'"method":"tools/call","params"')
        async with session.post(url, data=io.BytesIO(sent), headers=JSON) as got:
            assert large(b'"result"') in await got.read()
        assert there.asked[0][1] == sent
        assert there.asked[0][0]["Content-Length"] == str(len(sent))

        def call() -> Any:
            desk.traffic.catch_up()
            named = (
                each for each in desk.traffic.exchanges if each.method == "tools/call" and each.peer != "desk"
            )
            return next(named, None)

        await until(lambda: call() is not None and call().response is not None)

    await through(way, use)


async def test_who_breaks_off_a_large_body_breaks_it_off_there() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        begun = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"[" + b"1," * (1 << 20)
            begun.set()
            await asyncio.Event().wait()

        sent = JSON | {"Content-Length": str(20 << 20)}
        going = asyncio.create_task(session.post(url, data=pieces(), headers=sent))
        await begun.wait()
        await there.begun.wait()
        going.cancel()
        await there.left.wait()

    await through("200", use)


async def test_a_body_of_unknown_size_over_the_limit_is_refused_here() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"1" * 3000

        async with session.post(url, data=pieces(), headers=JSON) as got:
            assert got.status == 413
        assert not there.asked

    await through("200", use, max_body_bytes=2000)


@pytest.mark.slow
async def test_quiet_clients_and_too_many_are_closed_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_clients, "MAX_CLIENTS", 5)

    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        for number in range(20):
            async with session.post(url, data=ASKED, headers=JSON | {"Mcp-Session-Id": f"s{number}"}) as got:
                assert got.status == 200
            assert len(desk.host.passed_clients()) == min(number + 1, 5)
        await until(lambda: not desk.host.passed_clients())
        infos = desk.traffic.connections.values()
        assert [info.closed is not None for info in infos if info.peer != "desk"] == [True] * 20

    await through("200", use, session_ttl_s=1)


@pytest.mark.process
async def test_clients_of_two_desks_use_one_server() -> None:
    command = (sys.executable, "-m", "tests.support.official_server", "http")
    there = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL, cwd=ROOT)
    assert there.stdout is not None
    try:
        port = int(await there.stdout.readline())
        plan = UpstreamPlan("there", UrlTarget(f"http://127.0.0.1:{port}/mcp"))
        async with (
            running_desk(upstreams=[plan], http=True) as one,
            running_desk(upstreams=[plan], http=True) as two,
        ):
            desks = (one, two)
            for revision in ("2025-11-25", "2026-07-28"):
                async with AsyncExitStack() as stack:
                    entered = [official.session(desk.host.url("there"), revision) for desk in desks]
                    clients = [await stack.enter_async_context(each) for each in entered]
                    calls = (each.call_tool("add", {"a": 2, "b": n}) for n, each in enumerate(clients))
                    sums = [each.structured_content for each in await asyncio.gather(*calls)]
                    assert sums == [{"sum": 2}, {"sum": 3}]
            for desk in desks:
                counts = [(row.calls, row.connections) for row in desk.view().clients]
                assert counts == [(2, 2)], "a client that comes back has one row"
    finally:
        there.kill()
        await there.wait()


async def test_who_uses_our_token_needs_our_key_which_is_not_sent_on() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        async with session.post(url, data=ASKED, headers=JSON) as got:
            assert got.status == 403
        key = {"X-API-Key": desk.host.rules.api_key}
        in_query = f"{url}?api_key={desk.host.rules.api_key}"
        async with session.post(in_query, data=ASKED, headers=JSON) as got:
            assert got.status == 403
        async with session.post(url, data=ASKED, headers=JSON | key) as got:
            assert got.status == 200
        async with session.post(url, data=ASKED, headers=JSON | key | {"Origin": "http://evil.test"}) as got:
            assert got.status == 403
        shown = desk.client_config("there", "cursor").result(0)
        assert url in shown and desk.host.rules.api_key in shown
        assert [headers["Authorization"] for headers, _ in there.asked] == ["Bearer secret"]
        assert "X-API-Key" not in there.asked[0][0]

    await through("200", use, Reach(token="secret"))


async def test_a_small_answer_that_breaks_off_is_told_of() -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        async with session.post(url, data=ASKED, headers=JSON) as got:
            assert (got.status, "broke before the answer was complete" in await got.text()) == (502, True)

    await through("cut", use)


async def test_a_server_that_cannot_be_reached_is_told_of() -> None:
    plan = UpstreamPlan("there", UrlTarget("http://127.0.0.1:9/mcp"))
    async with (
        running_desk(upstreams=[plan], http=True) as desk,
        aiohttp.ClientSession() as session,
        session.post(desk.host.url("there"), data=ASKED, headers=JSON) as got,
    ):
        assert (got.status, "cannot be asked" in await got.text()) == (502, True)


async def test_a_message_that_is_parsed_when_the_client_leaves_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_read, may_end = threading.Event(), threading.Event()

    def read(data: bytes, *, is_line: bool = False) -> ReadFrame:
        is_read.set()
        may_end.wait(WITHIN_S)
        return read_frame(data, is_line=is_line)

    monkeypatch.setattr(pass_through_routes, "read_frame", read)

    async def use(session: Any, url: str, there: OtherProcesses, desk: Any) -> None:
        host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = {**JSON, "Host": f"{host}:{port}", "X-Way": "odd events", "Content-Length": str(len(ASKED))}
        lines = ["POST /mcp/there HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + ASKED)
        await until(is_read.is_set)
        writer.close()
        await until(lambda: any(each and ODD.startswith(each) for each in seen(desk)))
        may_end.set()

    try:
        await through("odd events", use)
    finally:
        may_end.set()


def seen(desk: Any) -> list[bytes]:
    """The beginning of every frame that was recorded."""
    store = desk.host.recording._store
    return [store.frame_bytes(number) for number in range(store.count)]
