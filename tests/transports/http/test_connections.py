"""Slow connections are closed; work of a lost connection ends or continues, depending on its era."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from mcpdesk.inbox.question import Answer, Option, Page, QuestionState
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import connections, http_service
from mcpdesk.transports.http.connections import HttpConnections
from tests.support.patience import in_time, until, within
from tests.support.rude import HEAD, all_of, connected, posted
from tests.support.site import Served, serving

HASTY = Rules(request_timeout_s=0.2)
LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_S", 0.05)
    monkeypatch.setattr(connections, "LINGER_S", 0.05)


@pytest.mark.parametrize(
    "sent",
    [b"P", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n{", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"],
)
async def test_a_request_that_never_ends_is_refused_by_name(sent: bytes) -> None:
    async with serving(HASTY) as served, connected(served) as (reader, writer):
        writer.write(sent)
        answer = await all_of(reader)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n") and b"request_timeout_s" in answer
    body = answer.partition(b"\r\n\r\n")[2]
    assert set(orjson.loads(body)) == {"error"}


async def test_a_byte_now_and_then_buys_no_time() -> None:
    async with serving(HASTY) as served, connected(served) as (reader, writer):
        answer, started = asyncio.create_task(all_of(reader)), False
        while not answer.done():
            writer.write(b"x" if started else HEAD + b"X-Slow: ")
            started = True
            await asyncio.wait({answer}, timeout=0.02)
        # If the peer no longer reads, writing may lose the answer.
        assert answer.result()[:12] in (b"HTTP/1.1 408", b"")


async def test_who_says_nothing_at_all_is_let_go_without_a_word() -> None:
    async with serving(HASTY) as served, connected(served) as (reader, _):
        assert await all_of(reader) == b""


async def test_a_large_body_gets_the_time_it_needs() -> None:
    size = 1 << 20
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%b"}}' % (b"x" * size)
    async with serving(Rules(request_timeout_s=0.1)) as served, connected(served) as (reader, writer):
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:size])
        swept = asyncio.Event()
        asyncio.get_running_loop().call_later(0.4, swept.set)
        await swept.wait()
        writer.write(body[size:])
        async with within():
            assert b"200" in await reader.readline()


@pytest.mark.slow
async def test_a_connection_that_has_been_served_may_be_idle() -> None:
    async with serving(HASTY) as served, connected(served) as (reader, writer):
        for head, body in ((HEAD + b"Content-Length: %d\r\n\r\n" % len(LIST), LIST),) * 2:
            writer.write(head)
            await writer.drain()
            writer.write(body)
            async with within():
                length = 0
                while line := (await reader.readline()).strip():
                    if line.lower().startswith(b"content-length"):
                        length = int(line.split()[1])
                assert b"tools" in await reader.readexactly(length)
            swept = asyncio.Event()
            asyncio.get_running_loop().call_later(0.5, swept.set)
            await swept.wait()


async def test_a_long_call_is_no_slow_request() -> None:
    async with serving(HASTY) as served:
        started, may_end = asyncio.Event(), asyncio.Event()

        async def slow(arguments: dict[str, Any], context: Context) -> Any:
            started.set()
            await may_end.wait()
            return "finished"

        served.hosted.server.tools.replace([Tool("slow", slow, {"type": "object"})])
        asyncio.get_running_loop().call_later(0.5, may_end.set)
        answer = await served.modern("tools/call", {"name": "slow"})
        assert (await answer.json())["result"]["content"][0]["text"] == "finished"


async def test_a_client_that_reads_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.1)
    async with serving() as served:
        gone = asyncio.Event()

        async def flood(arguments: dict[str, Any], context: Context) -> Any:
            try:
                while True:
                    await context.progress(1 + len(gone_after), message="x" * 60_000)
                    gone_after.append(1)
            finally:
                gone.set()

        gone_after: list[int] = []
        served.hosted.server.tools.replace([Tool("flood", flood, {"type": "object"}, timeout_s=60)])
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"}) | {"progressToken": 1}
        body = orjson.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood", "_meta": meta}}
        )
        named = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: flood\r\n"
        async with connected(served) as (_, writer):
            writer.write(HEAD + named + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            async with within():
                await gone.wait()
        assert len(gone_after) < 2_000


@asynccontextmanager
async def unread(served: Served) -> AsyncIterator[HttpConnections]:
    """A client that requests 16 MiB and reads nothing; yield the object that holds its connection."""

    async def much(arguments: dict[str, Any], context: Context) -> Any:
        return "x" * (16 << 20)

    served.hosted.server.tools.replace([Tool("much", much, {"type": "object"})])
    open_ones = served.service._listener
    assert open_ones is not None
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "much"}})
    async with connected(served) as (_, writer):
        writer.write(posted(body))
        await until(lambda: any(each.is_write_paused for each in open_ones.connections))
        yield open_ones


async def test_a_client_that_was_disconnected_and_reads_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", 0.1)
    monkeypatch.setattr(connections, "SWEEP_S", 0.05)
    async with serving() as served, unread(served) as open_ones, within():
        (number,) = served.recorder.connections
        assert served.service.disconnect(number)
        await until(lambda: not (open_ones.connections))


async def test_a_client_that_leaves_before_its_answer_begins_is_no_news_for_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare, came, over = web.WebSocketResponse.prepare, asyncio.Event(), asyncio.Event()

    async def late(socket: Any, request: Any) -> Any:
        came.set()
        try:
            await until(lambda: request.transport is None)
            return await prepare(socket, request)
        finally:
            over.set()

    monkeypatch.setattr(web.WebSocketResponse, "prepare", late)
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    async with serving() as served, within():
        async with connected(served) as (_, writer):
            writer.write(b"GET /mcp/sample/ws HTTP/1.1\r\nHost: 127.0.0.1\r\n" + upgrade + key)
            await came.wait()
        await over.wait()
    assert caplog.text == ""


class Workshop:
    """A tool that records its begin and its end."""

    def __init__(self, served: Served) -> None:
        self.began, self.may_end, self.over = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.finished = False
        served.hosted.server.tools.replace([Tool("slow", self.slow, {"type": "object"})])

    async def slow(self, arguments: dict[str, Any], context: Context) -> Any:
        try:
            self.began.set()
            await self.may_end.wait()
            self.finished = True
        finally:
            self.over.set()


CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"%b}}'


async def lose(served: Served, shop: Workshop, named: bytes, meta: bytes) -> None:
    """Call the tool, and close the connection while it runs."""
    body = CALL % meta
    async with connected(served) as (_, writer):
        writer.write(HEAD + named + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        async with within():
            await shop.began.wait()


@pytest.mark.requirement("4.12")
@pytest.mark.parametrize(
    "named", [b"", b"MCP-Protocol-Version: 2025-06-18\r\n", b"MCP-Protocol-Version: 2025-11-25\r\n"]
)
async def test_a_sessionless_call_of_the_handshake_era_goes_on_without_its_connection(named: bytes) -> None:
    async with serving() as served:
        shop = Workshop(served)
        await lose(served, shop, named, b"")
        open_ones = served.service._listener
        assert open_ones is not None
        async with within():
            await until(lambda: not (open_ones.connections))
            shop.may_end.set()
            await shop.over.wait()
            assert shop.finished
            await until(lambda: not (served.hosted.dialogues))


@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_lost_connection_ends_a_call_only_while_it_waits_for_a_person(is_answered: bool) -> None:
    async with serving() as served:
        shop, inbox = Workshop(served), served.peer.services.inbox
        inbox.audience = 1

        async def asking(arguments: dict[str, Any], context: Context) -> Any:
            try:
                await context.ask([Page("Continue?", options=(Option("yes"), Option("no")))])
                await shop.slow(arguments, context)
            finally:
                shop.over.set()

        served.hosted.server.tools.replace([Tool("slow", asking, {"type": "object"})])
        body = CALL % b""
        async with connected(served) as (_, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await until(inbox.questions)
            if is_answered:
                assert inbox.answer(inbox.questions()[0].id, [Answer(("yes",))])
                await in_time(shop.began.wait())
        open_ones = served.service._listener
        assert open_ones is not None
        await until(lambda: not open_ones.connections)
        shop.may_end.set()
        await in_time(shop.over.wait())
        assert shop.finished is is_answered
        (question,) = inbox.questions()
        assert question.state is (QuestionState.ANSWERED if is_answered else QuestionState.WITHDRAWN)


@pytest.mark.requirement("5.10")
async def test_a_stateless_call_ends_with_its_connection() -> None:
    named = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: slow\r\n"
    meta = b',"_meta":%b' % orjson.dumps(request_meta(V2026_07_28, {"name": "t", "version": "1"}))
    async with serving() as served:
        shop = Workshop(served)
        await lose(served, shop, named, meta)
        async with within():
            await shop.over.wait()
        assert not shop.finished


async def test_calls_without_a_client_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_ORPHANED_DIALOGUES", 2)
    async with serving() as served:
        running = 0

        async def slow(arguments: dict[str, Any], context: Context) -> Any:
            nonlocal running
            running += 1
            shop.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                running -= 1
                shop.over.set()

        shop = Workshop(served)
        served.hosted.server.tools.replace([Tool("slow", slow, {"type": "object"}, timeout_s=60)])
        for _ in range(5):
            shop.began.clear()
            await lose(served, shop, b"", b"")
        await until(lambda: running <= 2)
        assert running == 2


async def test_too_much_of_a_head_is_refused_without_repeating_it() -> None:
    heads = {
        b"8190 bytes": HEAD + b"X-Long: " + b"y" * 100_000 + b"\r\n\r\n",
        b"128 headers": HEAD + b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n",
    }
    async with serving() as served:
        for told, head in heads.items():
            async with connected(served) as (reader, writer):
                writer.write(head)
                answer = await all_of(reader)
            assert answer.startswith(b"HTTP/1.1 431 ") and told in answer and len(answer) < 500


ASK = posted(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')


async def test_the_longest_idle_connection_makes_room() -> None:
    async with serving(Rules(max_connections=2)) as served, connected(served) as (first, writer):
        writer.write(ASK)
        assert b"200" in await first.readline()
        async with connected(served) as (second, other):
            other.write(ASK)
            assert b"200" in await second.readline()
            async with connected(served) as (third, newest):
                newest.write(ASK)
                assert b"200" in await third.readline()
                assert (await all_of(first)).endswith(b"}")
                other.write(ASK)
                newest.write(ASK)
                for reader in (second, third):
                    async with within():
                        while b"HTTP/1.1 200" not in await reader.readline():
                            pass


async def test_connections_in_use_make_none_and_a_new_one_is_told() -> None:
    async with serving(Rules(max_connections=1)) as served:
        headers = await served.session()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            served.client.get(f"{served.url}/mcp/sample", headers=named | {"Accept": "text/event-stream"}),
            connected(served) as (reader, _),
        ):
            answer = await all_of(reader)
    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") and b"max_connections" in answer


async def test_files_of_the_process_bound_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "max_open_files", lambda: connections.SPARE_FILES + 1)
    async with (
        serving() as served,
        connected(served) as (first, _),
        connected(served) as (second, writer),
    ):
        writer.write(ASK)
        assert b"200" in await second.readline()
        assert await all_of(first) == b""


LARGE = 1 << 20


def large(size: int = LARGE) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * size}})


@pytest.mark.parametrize("header", [b"Expect: 100-continue\r\n", b"Content-Encoding: identity\r\n"])
async def test_a_body_that_came_whole_is_held_no_longer_than_its_request(header: bytes) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    async with serving() as served, connected(served) as (reader, writer):
        listener = served.service._listener
        assert listener is not None
        async with within():
            for _ in range(3):
                writer.write(posted(ping, header))
                await reader.readuntil(b'"result":{}}')
                await until(lambda: not (listener.budget.held_bytes))


async def test_unfinished_bodies_are_bounded_together_and_given_back() -> None:
    async with serving(Rules(max_bodies_bytes=4 * LARGE)) as served:
        listener = served.service._listener
        assert listener is not None
        body = large()
        holding = [connected(served) for _ in range(2)]
        for each in holding:
            _, writer = await each.__aenter__()
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        await until(lambda: listener.budget.held_bytes >= 2 * LARGE)
        async with connected(served) as (reader, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert b"200" in await reader.readline()
        async with connected(served) as (reader, writer):
            much = large(3 * LARGE)
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(much) + much)
            answer = await all_of(reader)
            assert answer.startswith(b"HTTP/1.1 503") and b"max_bodies_bytes" in answer
        assert (await served.modern("tools/list")).status == 200
        for each in holding:
            await each.__aexit__(None, None, None)
        await until(lambda: not (listener.budget.held_bytes))


async def test_a_body_that_does_not_arrive_makes_room_for_a_newcomer() -> None:
    async with serving(Rules(max_connections=1)) as served, connected(served) as (slow, writer):
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n{")
        listener = served.service._listener
        assert listener is not None
        async with within():
            await until(lambda: any(each.body_since is not None for each in listener.connections))
            began = listener.loop.time()
            await until(lambda: listener.loop.time() - began > connections.SWEEP_S)
        async with connected(served) as (reader, newcomer):
            newcomer.write(ASK)
            assert b"200" in await reader.readline()
        answer = await all_of(slow)
    assert answer.startswith(b"HTTP/1.1 503 ") and b"max_connections" in answer


async def test_the_end_waits_for_nobody_who_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_service, "SHUTDOWN_S", 0.1)
    async with serving() as served, unread(served) as open_ones, within():
        await served.service.close()
        assert open_ones.connections == []
