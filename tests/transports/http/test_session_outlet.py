"""Streams of a session outlive their connections."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import mcp_types as types
import orjson
import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from mcpdesk.protocol.event_store import EventStore, SharedEventBudget
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import within
from tests.support.site import Served, serving


class Workshop:
    """Tools that wait until the test continues them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.may_end = asyncio.Event()
        self.let_go: bool | None = None
        made = {"slow": self.slow, "quiet": self.quiet, "leave": self.leave}
        tools = [Tool(name, handler, {"type": "object"}) for name, handler in made.items()]
        served.hosted.server.tools.replace([*tools, *served.hosted.server.tools])

    async def slow(self, arguments: dict[str, Any], context: Context) -> Any:
        await context.progress(1)
        await self.may_end.wait()
        await context.progress(2)
        return "finished"

    async def quiet(self, arguments: dict[str, Any], context: Context) -> Any:
        await self.may_end.wait()
        return "at last"

    async def leave(self, arguments: dict[str, Any], context: Context) -> Any:
        self.let_go = await context.close_stream(20)
        return "after all"

    async def call(self, name: str, headers: dict[str, str], identifier: int = 1) -> aiohttp.ClientResponse:
        params = {"name": name, "_meta": {"progressToken": identifier}}
        message = {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}
        return await self.served.post(message, **headers)

    async def resume(self, headers: dict[str, str], last: str) -> aiohttp.ClientResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named |= {"Accept": "text/event-stream", "Last-Event-ID": last}
        return await self.served.client.get(f"{self.served.url}/mcp/sample", headers=named)


async def event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The next event's fields; empty at the end of the stream."""
    fields: dict[str, str] = {}
    async with within():
        while line := (await answer.content.readline()).decode():
            if line == "\n" and fields:
                return fields
            name, _, value = line.rstrip("\n").partition(":")
            if name:
                fields[name] = value.strip()
    return {}


async def rest(answer: aiohttp.ClientResponse) -> list[dict[str, str]]:
    came = []
    while each := await event(answer):
        came.append(each)
    return came


def message(fields: dict[str, str]) -> dict[str, Any]:
    return dict(orjson.loads(fields["data"]))


@pytest.mark.requirement("4.10", "4.12")
async def test_a_call_goes_on_when_its_connection_breaks_and_is_answered_on_resumption() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        answer = await shop.call("slow", headers)
        assert await event(answer) == {"id": "1:0", "data": ""}
        first = await event(answer)
        assert (first["id"], message(first)["params"]["progress"]) == ("1:1", 1)
        answer.close()
        shop.may_end.set()
        came = await rest(await shop.resume(headers, first["id"]))
        assert [each["id"] for each in came] == ["1:1", "1:2", "1:3"]
        assert came[0]["data"] == ""
        assert message(came[1])["params"]["progress"] == 2
        assert message(came[2])["result"]["content"][0]["text"] == "finished"


@pytest.mark.requirement("4.6", "4.10")
async def test_what_is_sent_after_the_resumption_comes_too_and_only_from_that_stream() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        first, other = await shop.call("slow", headers, 1), await shop.call("slow", headers, 2)
        for answer in (first, other):
            await event(answer)
        first.close()
        resumed = await shop.resume(headers, "1:0")
        shop.may_end.set()
        messages = [message(each) for each in (await rest(resumed)) if each["data"]]
        assert [each.get("id") or each["params"]["progressToken"] for each in messages] == [1, 1, 1]
        assert message((await rest(other))[-1])["id"] == 2


async def test_a_finished_stream_is_replayed_and_ends() -> None:
    async with serving() as served:
        shop = Workshop(served)
        shop.may_end.set()
        headers = await served.session()
        came = await rest(await shop.call("slow", headers))
        again = await rest(await shop.resume(headers, "1:1"))
        assert again[1:] == came[2:]


@pytest.mark.parametrize("last", ["9:1", "x", "1", ":", "1:99999999999"])
async def test_an_unknown_event_is_refused(last: str) -> None:
    async with serving() as served:
        shop = Workshop(served)
        answer = await shop.resume(await served.session(), last)
        assert answer.status == 400


@pytest.mark.requirement("12.14")
async def test_a_stream_of_another_session_does_not_exist() -> None:
    async with serving() as served:
        shop = Workshop(served)
        shop.may_end.set()
        await rest(await shop.call("slow", await served.session()))
        assert (await shop.resume(await served.session(), "1:0")).status == 400


async def test_the_standing_stream_is_resumed() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        standing = await shop.resume(headers, "0:0")
        assert await event(standing) == {"id": "0:0", "data": ""}
        standing.close()
        served.peer.services.subscriptions.list_changed("sample", "tool")
        resumed = await shop.resume(headers, "0:0")
        await event(resumed)
        assert message(await event(resumed))["method"] == "notifications/tools/list_changed"
        resumed.close()


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_older_clients_get_ids_but_no_empty_events(revision: str) -> None:
    async with serving() as served:
        shop = Workshop(served)
        shop.may_end.set()
        headers = await served.session(revision)
        came = await rest(await shop.call("slow", headers))
        assert [each["id"] for each in came] == ["1:1", "1:2", "1:3"]
        answer = await shop.call("leave", headers)
        assert answer.content_type == "application/json"
        assert shop.let_go is False


async def test_the_stateless_era_and_plain_requests_have_no_ids() -> None:
    async with serving() as served:
        shop = Workshop(served)
        shop.may_end.set()
        assert not any("id" in each for each in await rest(await shop.call("slow", {})))
        answer = await served.modern("tools/call", {"name": "leave"})
        assert answer.content_type == "application/json"
        assert shop.let_go is False


async def test_a_handler_closes_the_connection_and_the_client_comes_back() -> None:
    async with serving() as served:
        shop = Workshop(served)
        headers = await served.session()
        answer = await shop.call("leave", headers)
        assert await rest(answer) == [{"id": "1:0", "data": ""}, {"retry": "20"}]
        assert shop.let_go is True
        came = await rest(await shop.resume(headers, "1:0"))
        assert message(came[-1])["result"]["content"][0]["text"] == "after all"


@pytest.mark.slow
async def test_the_official_client_comes_back_after_a_cut_and_after_being_let_go() -> None:
    async with serving() as served:
        shop = Workshop(served)
        cut = asyncio.Event()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            cut.set()

        async with (
            streamable_http_client(f"{served.url}/mcp/sample") as (read, write),
            ClientSession(read, write) as session,
            within(),
        ):
            await session.initialize()
            result = await session.call_tool("leave", {})
            assert isinstance(result, types.CallToolResult)
            assert result.model_dump()["content"][0]["text"] == "after all"
            calling = asyncio.create_task(session.call_tool("slow", {}, progress_callback=heard))
            await cut.wait()
            assert served.service._listener is not None
            for each in served.service._listener.connections:
                each.close()
            shop.may_end.set()
            assert (await calling).model_dump()["content"][0]["text"] == "finished"


def test_the_store_is_bounded_and_keeps_the_newest() -> None:
    store = EventStore[Any](max_bytes=200, max_events=4, event_budget=SharedEventBudget(1000))
    one, two = store.open(), store.open()
    for _ in range(6):
        one.put(b"{}")
    assert len(store) == 4
    two.put(b"x" * 500)
    assert (len(store), len(one.events), len(two.events)) == (1, 0, 1)
    assert store.size > 500
    one.end()
    assert store.find("0:1") is None
    assert store.find("1:0") == (two, 0)
    store.close()
    assert (len(store), store.size) == (0, 0)


def test_of_what_all_sessions_keep_the_longest_quiet_one_gives_first() -> None:
    event_budget = SharedEventBudget(300)
    stores = [EventStore[Any](max_bytes=200, max_events=100, event_budget=event_budget) for _ in range(3)]
    streams = [store.open() for store in stores]
    for stream in streams:
        stream.put(b"x" * 60)
    assert [len(store) for store in stores] == [1, 1, 1]
    streams[0].put(b"x" * 60)
    assert [len(store) for store in stores] == [2, 0, 1]
    assert event_budget.size == sum(store.size for store in stores) <= 300
    streams[2].put(b"x" * 1000)
    assert [len(store) for store in stores] == [0, 0, 1]
    for store, stream in zip(stores, streams, strict=True):
        store.close()
        stream.put(b"late")
    assert (event_budget.size, [len(store) for store in stores]) == (0, [0, 0, 0])
