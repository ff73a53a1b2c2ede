"""The official client against the real programs: `serve`, `stdio` with a core of its own or as a pump."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mcpdesk.protocol.revisions import BY_NAME, LATEST, LATEST_HANDSHAKE
from tests.support.desk import running_desk
from tests.support.official import ALL, HANDSHAKES, ROOT, Heard, session, stdio

WAYS = ("http", "stdio", "pump")
Place = str | StdioServerParameters


@pytest.fixture
def place(request: pytest.FixtureRequest, folder: Path) -> Place:
    """Where the client connects to, by the name of the way."""
    if request.param == "stdio":
        return stdio(folder, "--alone")
    served: str = request.getfixturevalue("served")
    return served if request.param == "http" else stdio(folder)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("place", WAYS, indirect=True)
async def test_everything_a_client_asks_for_is_answered(place: Place, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("workshop", "2.0.0")
        assert client.instructions == "Weigh first."
        await lists_are_paged(client)
        await tools_answer(client, revision)
        await tools_report(client, heard, revision)
        await resources_are_read(client, revision)
        await prompts_are_filled(client)


async def lists_are_paged(client: ClientSession) -> None:
    first = await client.list_tools()
    assert len(first.tools) == 4 and first.next_cursor
    names = [tool.name for tool in first.tools]
    cursor = first.next_cursor
    while cursor:
        page = await client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        names += [tool.name for tool in page.tools]
        cursor = page.next_cursor
    assert sorted(names) == sorted(
        ["AskUserQuestion", "weigh", "say", "who", "lines", "steps", "refuse", "crash", "forever", "seen-end"]
    )
    with pytest.raises(MCPError) as refused:
        await client.list_tools(params=types.PaginatedRequestParams(cursor="nonsense"))
    assert refused.value.error.code == -32602


async def tools_answer(client: ClientSession, revision: str) -> None:
    weighed = await client.call_tool("weigh", {"weight": 1.5, "labels": ["fragile"]})
    parcel = {"weight": 1.5, "labels": ["fragile"]}
    assert weighed.structured_content == (None if BY_NAME[revision].structured == "none" else parcel)
    assert isinstance(weighed.content[0], types.TextContent)
    assert '"weight":1.5' in weighed.content[0].text
    said = await client.call_tool("say", {"text": "grüß\u2028 \U0001f600"})
    assert said.content == [types.TextContent(type="text", text="grüß\u2028 \U0001f600")]
    refused = await client.call_tool("refuse", {"reason": "not today"})
    assert refused.is_error and refused.content == [types.TextContent(type="text", text="not today")]
    crashed = await client.call_tool("crash", {})
    assert crashed.is_error and "KeyError" in str(crashed.content) and "Traceback" not in str(crashed.content)
    wrong = await client.call_tool("weigh", {"weight": "heavy", "colour": "red"})
    assert wrong.is_error and "weight" in str(wrong.content) and "colour" in str(wrong.content)
    with pytest.raises(MCPError, match="no-such-tool") as unknown:
        await client.call_tool("no-such-tool", {})
    assert unknown.value.error.code == -32602


async def tools_report(client: ClientSession, heard: Heard, revision: str) -> None:
    walked = await client.call_tool("steps", {"count": 3}, progress_callback=heard.on_progress)
    assert walked.content == [types.TextContent(type="text", text="walked")]
    await heard.until(lambda: len(heard.progress) == 3 and len(heard.logs) == 2)
    named = BY_NAME[revision].has_progress_message
    assert heard.progress == [(step, 3, f"step {step}" if named else None) for step in (1, 2, 3)]
    assert [(log.level, log.logger, log.data) for log in heard.logs] == [
        ("info", "steps", {"steps": 3}),
        ("warning", "steps", "that was the last"),
    ]


async def resources_are_read(client: ClientSession, revision: str) -> None:
    listed = await client.list_resources()
    assert {str(each.uri) for each in listed.resources} == {"resource://notes", "resource://dot"}
    templates = await client.list_resource_templates()
    assert [each.uri_template for each in templates.resource_templates] == ["parcel://{number}"]
    notes = await client.read_resource("resource://notes")
    assert isinstance(notes.contents[0], types.TextResourceContents) and "# Notes" in notes.contents[0].text
    dot = await client.read_resource("resource://dot")
    assert isinstance(dot.contents[0], types.BlobResourceContents)
    parcel = await client.read_resource("parcel://7")
    assert isinstance(parcel.contents[0], types.TextResourceContents)
    assert parcel.contents[0].text == "parcel 7"
    with pytest.raises(MCPError, match="resource://missing") as missing:
        await client.read_resource("resource://missing")
    assert missing.value.error.code == BY_NAME[revision].resource_not_found


async def prompts_are_filled(client: ClientSession) -> None:
    prompt = (await client.list_prompts()).prompts[0]
    assert prompt.name == "letter" and prompt.arguments is not None
    assert [(each.name, bool(each.required)) for each in prompt.arguments] == [("to", True), ("tone", False)]
    letter = await client.get_prompt("letter", {"to": "Ada", "tone": "kindly"})
    assert letter.messages[0].role == "user"
    assert isinstance(letter.messages[0].content, types.TextContent)
    assert letter.messages[0].content.text.strip() == "Write to Ada, kindly."
    for name, arguments, named in (("letter", {}, "'to'"), ("novel", {}, "novel")):
        with pytest.raises(MCPError, match=named) as refused:
            await client.get_prompt(name, arguments)
        assert refused.value.error.code == -32602


@pytest.mark.parametrize("revision", (LATEST_HANDSHAKE.name, LATEST.name))
@pytest.mark.parametrize("place", WAYS, indirect=True)
async def test_cancelling_ends_the_tool_and_nothing_else(place: Place, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        call = asyncio.create_task(client.call_tool("forever", {}, progress_callback=heard.on_progress))
        await heard.until(lambda: bool(heard.progress))
        call.cancel()
        ended = await client.call_tool("seen-end", {})
        assert not ended.is_error
        assert call.cancelled() or call.cancelling()
        assert (await client.call_tool("say", {"text": "still here"})).content


@pytest.mark.parametrize("place", ["http", "pump"], indirect=True)
@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_ping_and_levels_of_the_handshake_era(place: Place, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        await client.send_ping()
        await client.send_request(
            types.SetLevelRequest(params=types.SetLevelRequestParams(level="warning")), types.EmptyResult
        )
        await client.call_tool("steps", {"count": 1})
        await heard.until(lambda: bool(heard.logs))
        assert [log.level for log in heard.logs] == ["warning"]
        with pytest.raises(MCPError, match=r"loud.*known: debug, info") as refused:
            await client.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams.model_construct(level="loud")),
                types.EmptyResult,
            )
        assert refused.value.error.code == -32602


@pytest.mark.parametrize("place", WAYS, indirect=True)
async def test_a_client_that_probes_finds_the_stateless_era(place: Place) -> None:
    async with Client(place) as client:
        assert client.protocol_version == LATEST.name
        assert client.server_capabilities.tools is not None
        assert (await client.call_tool("say", {"text": "found"})).content


@pytest.mark.requirement("4.5")
async def test_two_clients_at_once_hear_only_what_is_theirs(served: str, folder: Path) -> None:
    first, second = Heard(), Heard()
    async with (
        session(served, "2025-11-25", first) as one,
        session(stdio(folder), "2026-07-28", second) as two,
    ):
        answering = [(await client.call_tool("who", {})).content for client in (one, two)]
        assert answering[0] == answering[1]
        walks = [
            client.call_tool("steps", {"count": count}, progress_callback=heard.on_progress)
            for client, heard, count in ((one, first, 40), (two, second, 25))
        ]
        echoes = [
            client.call_tool("say", {"text": str(number)}) for client in (one, two) for number in range(20)
        ]
        _, _, *said = await asyncio.gather(*walks, *echoes)
        assert [each.content[0].text for each in said] == [str(number) for number in range(20)] * 2
        await first.until(lambda: len(first.progress) == 40)
        await second.until(lambda: len(second.progress) == 25)
        assert {total for _, total, _ in first.progress} == {40}
        assert {total for _, total, _ in second.progress} == {25}


@pytest.mark.parametrize("place", WAYS, indirect=True)
async def test_without_a_desk_a_question_is_refused_at_once(place: Place) -> None:
    async with session(place, LATEST_HANDSHAKE.name) as client:
        questions = '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]'
        result = await client.call_tool("AskUserQuestion", {"questions_json": questions})
    assert result.is_error and isinstance(result.content[0], types.TextContent)
    assert result.content[0].text.startswith("Nobody can answer: no desk is open. Run `mcpdesk ")


async def test_a_key_is_asked_for_where_a_tool_runs_programs() -> None:
    async with running_desk(ROOT / "sample_servers" / "desk", http=True) as desk:
        view = desk.view()
        url, sent = view.servers[0].url, {view.api_key_header: view.api_key}
        async with httpx2.AsyncClient(headers=sent) as http, Client(transport(url, http)) as client:
            ran = await client.call_tool("Bash", {"command": "echo out; echo err >&2; exit 3"})
            assert ran.is_error and ran.structured_content is not None
            assert ran.structured_content["exit_code"] == 3
            assert (ran.structured_content["stdout"], ran.structured_content["stderr"]) == ("out\n", "err\n")
        async with httpx2.AsyncClient(headers={view.api_key_header: "guess"}) as http:
            with pytest.RaisesGroup(MCPError, flatten_subgroups=True, allow_unwrapped=True):
                async with Client(transport(url, http)):
                    raise AssertionError("connected without the key")


def transport(url: str, http: httpx2.AsyncClient) -> Any:
    return streamable_http_client(url, http_client=http)
