"""Questions of a server during a call, in both eras: answered, withdrawn, refused, timed out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.bridge.client import Client
from mcpdesk.bridge.result_text import format_result
from mcpdesk.client.answer_checks import question_fault
from mcpdesk.client.connection import MAX_QUESTIONS
from mcpdesk.errors import CallTimeout, InvalidAnswer, RpcError
from tests.bridge.conftest import HANDSHAKE
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import WITHIN_S, within
from tests.support.scripted import Seen, event, http, json, modern, result, scripted, stream

TOOLS = """
    from mcpdesk import Context, tool

    FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    async def both(ctx: Context) -> str:
        first = await ctx.elicit("Who are you?", FORM)
        second = await ctx.elicit("And who is with you?", FORM)
        return f"{first.action} {first.content} {second.action} {second.content}"

    @tool(task="required")
    async def slow(ctx: Context) -> str:
        answer = await ctx.elicit("Who are you?", FORM)
        return f"{answer.action} {answer.content}"

    async def quick(ctx: Context) -> str:
        answer = await ctx.elicit("Quick?", FORM)
        return answer.action
    """
WAYS = ("folder", "http", "session")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
ASKED = {"message": "Who?", "requestedSchema": FORM}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose tools ask."""
    return write(tmp_path / "asks", {"tools/asks.py": TOOLS})


@asynccontextmanager
async def opened(way: str, folder: Path, **more: Any) -> AsyncIterator[Client]:
    """A client of the folder in this process, or over HTTP in either era."""
    if way == "folder":
        async with Client(folder, **more) as client:
            yield client
        return
    async with running_desk(folder, http=True) as desk, Client(desk.view().servers[0].url, **more) as client:
        if way == "session":
            client._reach = HANDSHAKE
        yield client


def cancelling(url: str) -> Client:
    """A client that cancels every question."""
    return Client(url, on_elicit=always(action="cancel"))


def always(**answer: Any) -> Any:
    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        return answer

    return elicit


@pytest.mark.parametrize("way", WAYS)
async def test_every_question_of_a_call_is_answered(way: str, folder: Path) -> None:
    asked = []

    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"action": "accept", "content": {"name": "Ada"}} if len(asked) == 1 else {"action": "decline"}

    async with opened(way, folder, on_elicit=elicit) as client:
        told = format_result(await client.call_tool("both"))
    assert told.startswith("accept {'name': 'Ada'} decline")
    assert asked == ["Who are you?", "And who is with you?"]


@pytest.mark.parametrize("way", WAYS)
async def test_question_of_a_tool_that_is_a_task_is_answered(way: str, folder: Path) -> None:
    elicit = always(action="accept", content={"name": "Ada"})
    async with opened(way, folder, on_elicit=elicit) as client:
        assert format_result(await client.call_tool("slow")) == "accept {'name': 'Ada'}"


@pytest.mark.parametrize("way", WAYS)
async def test_client_that_answers_nothing_is_not_asked(way: str, folder: Path) -> None:
    async with opened(way, folder) as client:
        try:
            told = format_result(await client.call_tool("both", timeout_s=WITHIN_S))
        except RpcError as refused:
            told = refused.message
    assert "elicitation" in told


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "session"])
async def test_time_of_a_call_stands_still_while_a_person_thinks(way: str, folder: Path) -> None:
    has_passed = asyncio.Event()

    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(1.2, has_passed.set)
        await has_passed.wait()
        return {"action": "decline"}

    async with opened(way, folder, on_elicit=elicit) as client:
        await client.connect()
        assert format_result(await client.call_tool("both", timeout_s=1)).startswith("decline")


async def test_time_goes_on_after_the_answer() -> None:
    def answer(seen: Seen) -> bytes | None:
        if "inputResponses" in seen.message["params"]:
            return None
        return json(result(seen, asking()))

    async with scripted(modern(answer)) as server, cancelling(server.url) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("x", timeout_s=0.5)


async def test_question_that_the_server_stops_waiting_for_is_taken_back(folder: Path) -> None:
    write(folder, {"mcp.json": '{"settings": {"question_timeout_ms": 300}}'})
    is_taken_back = asyncio.Event()

    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            is_taken_back.set()
        return {}

    async with opened("session", folder, on_elicit=elicit) as client, within():
        with suppress(RpcError):
            await client.call_tool("quick")
        assert is_taken_back.is_set()


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_answering_raises_ends_the_call(way: str, folder: Path) -> None:
    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        raise LookupError("the house is empty")

    async with opened(way, folder, on_elicit=elicit) as client:
        with pytest.raises(LookupError, match="the house is empty"):
            await client.call_tool("both")


def asking(**more: Any) -> dict[str, Any]:
    requests = {"who": {"method": "elicitation/create", "params": ASKED}}
    return {"resultType": "input_required", "inputRequests": requests} | more


async def test_request_is_sent_again_as_it_was_with_answers_and_the_newest_state() -> None:
    states = iter([{"requestState": "s1"}, {}])
    done: Any = {"content": []}

    def answer(seen: Seen) -> bytes:
        more = next(states, None)
        return json(result(seen, done if more is None else asking(**more)))

    async with scripted(modern(answer)) as server, cancelling(server.url) as client:
        assert await client.call_tool("x", {"a": 1}) == done
    first, second, third = (seen.message for seen in server.seen[-3:])
    assert len({first["id"], second["id"], third["id"]}) == 3
    answers = {"inputResponses": {"who": {"action": "cancel"}}}
    assert second["params"] == first["params"] | answers | {"requestState": "s1"}
    assert third["params"] == first["params"] | answers
    declared = first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared == {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (asking(inputRequests=[]), "is not an object"),
        (asking(inputRequests={"r": {"method": "roots/list"}}), "roots/list"),
        (asking(inputRequests={"r": 5}), "not offered"),
        (asking(inputRequests={"r": {"method": "elicitation/create", "params": {}}}), "message"),
        (asking(), "which is the limit"),
    ],
)
async def test_what_is_no_question_is_no_answer(asked: dict[str, Any], told: str) -> None:
    async with (
        scripted(modern(lambda seen: json(result(seen, asked)))) as server,
        cancelling(server.url) as client,
    ):
        with pytest.raises(InvalidAnswer, match=told):
            await client.call_tool("x")


async def test_list_is_not_answered_with_questions() -> None:
    async with (
        scripted(modern(lambda seen: json(result(seen, asking())))) as server,
        cancelling(server.url) as client,
    ):
        with pytest.raises(InvalidAnswer, match="not offered"):
            await client.list_tools()


async def test_question_of_a_session_that_is_none_is_refused_and_too_many_end_the_call() -> None:
    def ask(identifier: int, params: Any) -> str:
        return event({"jsonrpc": "2.0", "id": identifier, "method": "elicitation/create", "params": params})

    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s"}}
    refusals = []

    def answer(seen: Seen) -> bytes:
        message = seen.message
        if "error" in message:
            refusals.append(message["error"]["code"])
            return http(202)
        if message.get("method") == "server/discover":
            return http(404)
        if message.get("method") == "initialize":
            assert message["params"]["capabilities"] == {"elicitation": {"form": {}, "url": {}}}
            return json(result(seen, opening))
        if message.get("method") != "tools/call":
            return http(202)
        if message["params"]["name"] == "wrong":
            return stream(ask(7, {"message": 5}))
        return stream(*(ask(number, ASKED) for number in range(MAX_QUESTIONS + 1)))

    async def think(params: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async with scripted(answer) as server, Client(server.url, on_elicit=think) as client:
        with pytest.raises(InvalidAnswer, match="too many questions"):
            await client.call_tool("many")
        with pytest.raises(InvalidAnswer):
            await client.call_tool("wrong")
    assert refusals == [-32602]


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        (ASKED, ""),
        ({"mode": "url", "message": "Go", "url": "https://example.org", "elicitationId": "1"}, ""),
        ({"mode": "url", "message": "Go"}, "url"),
        ({"mode": "call", "message": "Go"}, "mode"),
        (None, "object"),
        ({"message": "Who?"}, "requestedSchema"),
        ({"message": "Who?", "requestedSchema": {"type": "object", "properties": {"a": 5}}}, "a"),
        ({"message": "Who?", "requestedSchema": {"properties": {"a": {"type": "array"}}}}, "items"),
        ({"message": "Who?", "requestedSchema": {"properties": {"a": {"type": "object"}}}}, "type"),
    ],
)
def test_faults_of_questions_are_named(params: Any, fault: str) -> None:
    assert fault in question_fault("elicitation/create", params) and bool(fault) == bool(
        question_fault("elicitation/create", params)
    )
