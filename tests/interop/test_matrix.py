"""The official client by every way to a server, in every revision: requests, notifications and questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from mcpdesk.protocol.revisions import BY_NAME, Revision
from tests.support.folders import write
from tests.support.official import ALL, HANDSHAKES, WAYS, Answers, Heard, Place, answering, session, text_of
from tests.support.workshop import workshop

pytestmark = pytest.mark.process

QUESTIONS = '''
"""Tools that ask their client."""

from dataclasses import dataclass

from mcpdesk import Context, tool


@dataclass
class Person:
    name: str
    age: int = 30


@tool
async def greet(ctx: Context) -> str:
    """Greet whoever is there."""
    who = await ctx.elicit("Who are you?", Person)
    return f"Hello, {who.content.name} ({who.content.age})" if who.accepted else who.action


@tool
async def visit(ctx: Context) -> str:
    """Send somebody to a page."""
    return (await ctx.elicit_url("Sign in", "https://example.org/in")).action


@tool
async def write(ctx: Context) -> str:
    """Let a model write."""
    return (await ctx.sample("Greet!", max_tokens=20)).text


@tool
async def places(ctx: Context) -> list[str]:
    """Where the client lets us look."""
    return [root.uri for root in await ctx.list_roots()]
'''
CRATES = '''
from mcpdesk import resource


def colours(value, given):
    return [f"{given.get('kind', 'any')} red"]


@resource("crate://{kind}/{colour}", complete={"colour": colours})
async def crate(kind: str, colour: str) -> str | None:
    """One crate; there is no blue one."""
    return None if colour == "blue" else f"{colour} {kind}"
'''
PAINT = "---\narguments: [{name: colour, choices: [red, green, grey]}]\n---\nPaint it {{colour}}.\n"
ASKING = {"greet", "visit", "write", "places"}
TOOLS = {"weigh", "say", "who", "lines", "steps", "refuse", "crash", "forever", "seen-end", "AskUserQuestion"}
PARCEL = {"weight": 1.5, "labels": ["fragile"]}

every_way = pytest.mark.parametrize("place", WAYS, indirect=True)
every_revision = pytest.mark.parametrize("revision", ALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workshop, with tools that ask and texts that complete."""
    more = {"tools/ask.py": QUESTIONS, "resources/crates.py": CRATES, "prompts/paint.md": PAINT}
    return write(workshop(tmp_path_factory.mktemp("place") / "workshop"), more)


@pytest.mark.requirement("2.8", "6.4", "6.5", "12.16")
@every_way
@every_revision
async def test_everything_a_client_asks_for_is_answered(place: Place, revision: str) -> None:
    spoken = BY_NAME[revision]
    async with session(place, revision) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("workshop", "2.0.0")
        assert client.instructions == "Weigh first."
        await lists_are_paged(client)
        await tools_answer(client, spoken, is_gateway="/v1/" in str(place))
        await wrong_arguments_are_named(client, is_gateway="/v1/" in str(place))
        await resources_are_read(client, spoken)
        await prompts_are_filled(client)
        await arguments_are_completed(client, spoken)


@every_way
@every_revision
async def test_a_client_is_told_of_progress_and_logs_and_ends_calls(place: Place, revision: str) -> None:
    spoken, heard = BY_NAME[revision], Heard()
    async with session(place, revision, heard) as client:
        await tools_report(client, heard, spoken)
        await calls_are_cancelled(client, heard)


@every_way
@every_revision
async def test_a_client_is_asked_for_what_its_revision_has(place: Place, revision: str) -> None:
    spoken, answers = BY_NAME[revision], Answers()
    questions = {
        "greet": ("Who are you?", "Hello, Ada (36)", spoken.has_elicitation),
        "visit": ("Sign in", "accept", spoken.has_elicitation_modes),
        "write": ("sample", "Good day", True),
        "places": ("roots", '["file:///home/ada"]', True),
    }
    async with answering(place, revision, answers) as client:
        for tool, (question, said, is_asked) in questions.items():
            answers.asked.clear()
            if is_asked:
                result = await client.call_tool(tool, {})
                assert (text_of(result), answers.asked, result.is_error) == (said, [question], False)
            else:
                reason = await failure(client.call_tool(tool, {}), -32000, is_gateway="/v1/" in str(place))
                assert "does not offer elicitation" in reason
                assert answers.asked == []


@every_way
@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_session_sets_its_level_and_is_pinged(place: Place, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        await client.send_ping()
        params = types.SetLevelRequestParams(level="warning")
        await client.send_request(types.SetLevelRequest(params=params), types.EmptyResult)
        await client.call_tool("steps", {"count": 1})
        await heard.sees(lambda: bool(heard.logs))
        assert [log.level for log in heard.logs] == ["warning"]
        loud = types.SetLevelRequestParams.model_construct(level="loud")
        refusal = refused(client.send_request(types.SetLevelRequest(params=loud), types.EmptyResult))
        assert await refusal == (-32602, "Unknown log level 'loud'; known: debug, info, notice, warning, ...")


async def lists_are_paged(client: ClientSession) -> None:
    assert await paged(client.list_tools, "tools", 4) == sorted(TOOLS | ASKING)
    assert await paged(client.list_prompts, "prompts", 4) == ["letter", "paint"]
    assert await paged(client.list_resources, "resources", 4) == ["dot", "notes"]
    assert await paged(client.list_resource_templates, "resource_templates", 4) == ["crate", "parcel"]
    nonsense = types.PaginatedRequestParams(cursor="nonsense")
    assert (await refused(client.list_tools(params=nonsense)))[0] == -32602


async def paged(ask: Callable[..., Awaitable[Any]], items: str, size: int) -> list[str]:
    """The sorted names on all pages of a list, each of which holds `size` items at most."""
    names: list[str] = []
    cursor: str | None = None
    while True:
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        found = [each.name for each in getattr(page, items)]
        assert len(found) == size if page.next_cursor else 0 < len(found) <= size
        names += found
        cursor = page.next_cursor
        if cursor is None:
            return sorted(names)


async def failure(calling: Awaitable[types.CallToolResult], code: int, *, is_gateway: bool) -> str:
    """Text of a failed call: of its result, or of the error that the gateway has instead."""
    if is_gateway:
        told, text = await refused(calling)
        assert told == code
        return text
    result = await calling
    assert result.is_error
    return text_of(result)


async def tools_answer(client: ClientSession, spoken: Revision, *, is_gateway: bool) -> None:
    weighed = await client.call_tool("weigh", PARCEL)
    assert weighed.structured_content == (None if spoken.structured == "none" else PARCEL)
    assert '"weight":1.5' in text_of(weighed)
    assert (
        text_of(await client.call_tool("say", {"text": "grüß\u2028 \U0001f600"})) == "grüß\u2028 \U0001f600"
    )
    refusing = client.call_tool("refuse", {"reason": "not today"})
    assert await failure(refusing, -32000, is_gateway=is_gateway) == "not today"
    crashed = await failure(client.call_tool("crash", {}), -32000, is_gateway=is_gateway)
    assert "KeyError" in crashed and "Traceback" not in crashed
    assert await refused(client.call_tool("no-such", {})) == (-32602, "Unknown tool: no-such")


async def wrong_arguments_are_named(client: ClientSession, *, is_gateway: bool) -> None:
    calling = client.call_tool("weigh", {"weight": "heavy", "colour": "red"})
    told = await failure(calling, -32602, is_gateway=is_gateway)
    assert "weight" in told and "colour" in told


async def resources_are_read(client: ClientSession, spoken: Revision) -> None:
    notes = (await client.read_resource("resource://notes")).contents[0]
    assert isinstance(notes, types.TextResourceContents) and "# Notes" in notes.text
    dot = (await client.read_resource("resource://dot")).contents[0]
    assert isinstance(dot, types.BlobResourceContents)
    crate = (await client.read_resource("crate://fruit/red")).contents[0]
    assert isinstance(crate, types.TextResourceContents) and crate.text == "red fruit"
    for missing in ("resource://missing", "crate://fruit/blue"):
        refusal = await refused(client.read_resource(missing))
        assert refusal == (spoken.resource_not_found, f"Resource not found: {missing}")


async def prompts_are_filled(client: ClientSession) -> None:
    letter = await client.get_prompt("letter", {"to": "Ada", "tone": "kindly"})
    assert letter.messages[0].role == "user"
    assert isinstance(letter.messages[0].content, types.TextContent)
    assert letter.messages[0].content.text.strip() == "Write to Ada, kindly."
    assert await refused(client.get_prompt("letter", {})) == (-32602, "Prompt letter needs the argument 'to'")
    assert await refused(client.get_prompt("novel", {})) == (-32602, "Unknown prompt: novel")


async def arguments_are_completed(client: ClientSession, spoken: Revision) -> None:
    paint = types.PromptReference(type="ref/prompt", name="paint")
    found = (await client.complete(paint, {"name": "colour", "value": "gr"})).completion
    assert (found.values, found.total, found.has_more) == (["green", "grey"], 2, False)
    crate = types.ResourceTemplateReference(type="ref/resource", uri="crate://{kind}/{colour}")
    asked = await client.complete(crate, {"name": "colour", "value": ""}, {"kind": "fruit"})
    assert asked.completion.values == ["fruit red" if spoken.has_completion_context else "any red"]
    assert (await refused(client.complete(paint, {"name": "size", "value": ""})))[0] == -32602


async def tools_report(client: ClientSession, heard: Heard, spoken: Revision) -> None:
    walked = await client.call_tool("steps", {"count": 3}, progress_callback=heard.on_progress)
    assert text_of(walked) == "walked"
    await heard.sees(lambda: len(heard.progress) == 3 and len(heard.logs) == 2)
    assert heard.progress == [(step, 3, f"step {step}") for step in (1, 2, 3)]
    assert [(log.level, log.logger, log.data) for log in heard.logs] == [
        ("info", "steps", {"steps": 3}),
        ("warning", "steps", "that was the last"),
    ]


async def calls_are_cancelled(client: ClientSession, heard: Heard) -> None:
    heard.progress.clear()
    call = asyncio.create_task(client.call_tool("forever", {}, progress_callback=heard.on_progress))
    await heard.sees(lambda: bool(heard.progress))
    call.cancel()
    assert not (await client.call_tool("seen-end", {})).is_error
    assert call.cancelled() or call.cancelling()
    assert text_of(await client.call_tool("say", {"text": "still here"})) == "still here"


async def refused(asking: Awaitable[Any]) -> tuple[int, str]:
    """Code and message of the returned error; only the first four words of a list."""
    with pytest.raises(MCPError) as caught:
        await asking
    words = caught.value.error.message.split(", ")
    return caught.value.error.code, ", ".join([*words[:4], "..."] if len(words) > 4 else words)
