"""The official client after broken connections and ended sessions or servers: it resumes or gets an error."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.official import HANDSHAKES, Answers, Heard, session, text_of
from tests.support.patience import within
from tests.support.site import Served, serving


class Slow:
    """A tool that reports and then waits for the test; counts how often it began."""

    def __init__(self, served: Served) -> None:
        self.may_end = asyncio.Event()
        self.began = 0
        self.ended = asyncio.Event()
        served.hosted.server.tools.replace([Tool("slow", self.run, {"type": "object"})])

    async def run(self, arguments: dict[str, Any], context: Context) -> Any:
        self.began += 1
        try:
            await context.progress(1)
            await self.may_end.wait()
            await context.progress(2)
            return "finished"
        finally:
            self.ended.set()


def cut(served: Served) -> None:
    """Break every connection, as a network would."""
    assert served.service._listener is not None
    for connection in served.service._listener.connections:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("revision", HANDSHAKES[1:])
async def test_a_call_of_a_session_outlives_its_connection(revision: str) -> None:
    async with serving() as served, within():
        slow, heard = Slow(served), Heard()
        async with session(f"{served.url}/mcp/sample", revision, heard) as client:
            call = asyncio.create_task(client.call_tool("slow", {}, progress_callback=heard.on_progress))
            await heard.sees(lambda: bool(heard.progress))
            cut(served)
            slow.may_end.set()
            assert text_of(await call) == "finished"
            assert [step for step, _, _ in heard.progress] == [1, 2] and slow.began == 1


class Cut(Answers):
    """Loses its connection over every question, and answers then."""

    def __init__(self, served: Served) -> None:
        super().__init__()
        self._served = served

    async def roots(self, context: Any) -> types.ListRootsResult:
        cut(self._served)
        return await super().roots(context)


@pytest.mark.slow
@pytest.mark.parametrize("revision", HANDSHAKES[1:])
async def test_an_answer_arrives_though_the_stream_of_its_question_broke(revision: str) -> None:
    async with serving() as served, within():

        async def places(arguments: dict[str, Any], context: Context) -> Any:
            return " ".join(root.uri for root in await context.list_roots())

        served.hosted.server.tools.replace([Tool("places", places, {"type": "object"})])
        answers = Cut(served)
        async with session(f"{served.url}/mcp/sample", revision, answers=answers) as client:
            assert text_of(await client.call_tool("places", {})) == "file:///home/ada"
        assert answers.asked == ["roots"]


async def test_a_client_that_was_let_go_comes_back_and_is_asked() -> None:
    async with serving() as served, within():

        async def places(arguments: dict[str, Any], context: Context) -> Any:
            assert await context.close_stream(retry_ms=100)
            return " ".join(root.uri for root in await context.list_roots())

        served.hosted.server.tools.replace([Tool("places", places, {"type": "object"})])
        place = f"{served.url}/mcp/sample"
        async with session(place, LATEST_HANDSHAKE.name, answers=Answers()) as client:
            assert text_of(await client.call_tool("places", {})) == "file:///home/ada"


@pytest.mark.slow
@pytest.mark.parametrize("revision", HANDSHAKES[1:])
async def test_a_session_hears_of_changes_it_missed_without_its_standing_stream(revision: str) -> None:
    async with serving() as served, within():
        server, heard = served.hosted.server, Heard()
        async with session(f"{served.url}/mcp/sample", revision, heard) as client:
            await client.list_tools()
            server.tools.replace([])
            await heard.sees(lambda: heard.has(types.ToolListChangedNotification))
            cut(served)
            server.prompts.replace([])
            await heard.sees(lambda: heard.has(types.PromptListChangedNotification))


async def test_a_call_without_a_session_is_lost_with_its_connection_and_the_next_one_works() -> None:
    async with serving() as served, within():
        slow, heard = Slow(served), Heard()
        async with session(f"{served.url}/mcp/sample", LATEST.name, heard) as client:
            call = asyncio.create_task(client.call_tool("slow", {}, progress_callback=heard.on_progress))
            await heard.sees(lambda: bool(heard.progress))
            cut(served)
            with pytest.raises(MCPError, match="ended without a response"):
                await call
            await slow.ended.wait()
            slow.may_end.set()
            assert text_of(await client.call_tool("slow", {})) == "finished"


async def test_a_session_that_ended_is_told_so_and_another_one_begins() -> None:
    async with serving() as served, within():
        place, revision = f"{served.url}/mcp/sample", LATEST_HANDSHAKE.name
        async with session(place, revision) as client:
            served.service._mcp.sessions.close()
            with pytest.raises(MCPError, match=r"initialize again|Session terminated"):
                await client.list_tools()
        async with session(place, revision) as client:
            assert (await client.list_tools()).tools


@pytest.mark.parametrize("way", ["sse", "ws"])
async def test_a_stream_that_was_cut_ends_its_calls_and_a_new_one_serves(way: str) -> None:
    async with serving() as served, within():
        slow, heard = Slow(served), Heard()
        place = f"{served.url.replace('http', 'ws') if way == 'ws' else served.url}/mcp/sample/{way}"
        async with session(place, LATEST_HANDSHAKE.name, heard) as client:
            call = asyncio.create_task(client.call_tool("slow", {}, progress_callback=heard.on_progress))
            await heard.sees(lambda: bool(heard.progress))
            cut(served)
            with pytest.raises(MCPError, match=r"[Cc]onnection closed"):
                await call
        await slow.ended.wait()
        slow.may_end.set()
        async with session(place, LATEST_HANDSHAKE.name) as client:
            assert text_of(await client.call_tool("slow", {})) == "finished"
