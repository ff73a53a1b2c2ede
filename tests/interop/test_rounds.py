"""Hosted tools ask the official client: elicitation, sampling and roots, in both eras, on HTTP and pipes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mcpdesk.protocol.revisions import LATEST
from tests.support.folders import write
from tests.support.official import Answers, session, stdio, text_of
from tests.support.patience import WITHIN_S

TOOLS = '''
import asyncio
from dataclasses import dataclass

from mcpdesk import Context, tool

started = []


@dataclass
class Person:
    name: str
    age: int = 30


@tool
async def greet(ctx: Context) -> str:
    """Greet whoever is there."""
    started.append("greet")
    who = await ctx.elicit("Who are you?", Person)
    if not who.accepted:
        return who.action
    return f"Hello, {who.content.name} ({who.content.age}), {len(started)}"


@tool
async def count() -> int:
    """How often greeting began."""
    return len(started)


@tool
async def everything(ctx: Context) -> str:
    """Ask for all at once."""
    who, said, roots = await asyncio.gather(
        ctx.elicit("Who?", Person), ctx.sample("Greet!", max_tokens=20), ctx.list_roots()
    )
    return f"{who.content.name}: {said.text} from {[root.uri for root in roots]}"


@tool
async def pair(ctx: Context) -> str:
    """Ask for one, then for another."""
    first = await ctx.elicit("Who?", Person)
    second = await ctx.elicit(f"And who is with {first.content.name}?", Person)
    return f"{first.content.name} and {second.content.name}"
'''
PROMPTS = '''
from dataclasses import dataclass

from mcpdesk import Context, prompt


@dataclass
class Person:
    name: str


@prompt
async def letter(ctx: Context) -> str:
    """Write to somebody."""
    who = await ctx.elicit("To whom?", Person)
    return f"Write to {who.content.name}."
'''
RESOURCES = '''
from dataclasses import dataclass

from mcpdesk import Context, resource


@dataclass
class Person:
    name: str


@resource("note://of/{day}")
async def note(ctx: Context, day: str) -> str:
    """A note to somebody."""
    who = await ctx.elicit("For whom?", Person)
    return f"To {who.content.name}, {day}"
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    manifest = '{"name": "workshop", "version": "1.0.0", "builtins": ["AskUserQuestion"]}'
    asking = {"tools/ask.py": TOOLS, "prompts/letters.py": PROMPTS, "resources/notes.py": RESOURCES}
    return write(tmp_path_factory.mktemp("place") / "workshop", {"mcp.json": manifest, **asking})


@asynccontextmanager
async def connected(place: Any, answers: Answers, mode: str) -> AsyncIterator[Client]:
    async with Client(
        place,
        mode=mode,
        read_timeout_seconds=WITHIN_S,
        **answers.callbacks,
    ) as client:
        yield client


both_ways = pytest.mark.parametrize("place", ["json", "stdio"], indirect=True)
both_eras = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@pytest.mark.process
@both_ways
@both_eras
async def test_a_form_is_answered_and_the_tool_ran_once(place: Any, mode: str) -> None:
    answers = Answers()
    async with connected(place, answers, mode) as client:
        before = int(text_of(await client.call_tool("count", {})))
        assert text_of(await client.call_tool("greet", {})) == f"Hello, Ada (36), {before + 1}"
        assert answers.asked == ["Who are you?"]


@pytest.mark.process
@both_ways
@both_eras
async def test_everything_is_asked_at_once(place: Any, mode: str) -> None:
    answers = Answers()
    async with connected(place, answers, mode) as client:
        assert text_of(await client.call_tool("everything", {})) == "Ada: Good day from ['file:///home/ada']"
        assert sorted(answers.asked) == ["Who?", "roots", "sample"]


@pytest.mark.slow
async def test_each_round_may_come_to_another_process(folder: Path) -> None:
    carried: dict[str, Any] = {}
    for name in ("Ada", "Tom"):
        async with session(stdio(folder, "--alone"), LATEST.name, answers=Answers()) as client:
            asked = await client.call_tool("pair", {}, **carried, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult) and asked.input_requests is not None
        (question,) = asked.input_requests
        answer = types.ElicitResult(action="accept", content={"name": name})
        carried = {"input_responses": {question: answer}, "request_state": asked.request_state}
    async with session(stdio(folder, "--alone"), LATEST.name, answers=Answers()) as client:
        assert text_of(await client.call_tool("pair", {}, **carried)) == "Ada and Tom"


@pytest.mark.process
@both_ways
@both_eras
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusing_is_an_answer(place: Any, mode: str, action: Literal["decline", "cancel"]) -> None:
    async with connected(place, Answers(action), mode) as client:
        assert text_of(await client.call_tool("greet", {})) == action


@pytest.mark.process
@both_ways
@both_eras
async def test_prompts_and_resources_ask_too(place: Any, mode: str) -> None:
    async with connected(place, Answers(), mode) as client:
        result = await client.get_prompt("letter", {})
        assert "Write to Ada." in str(result.messages[0].content)
        read = await client.read_resource("note://of/today")
        assert getattr(read.contents[0], "text", None) == "To Ada, today"


@pytest.mark.process
@both_ways
@both_eras
async def test_ask_user_question_asks_the_client_where_no_desk_is_open(place: Any, mode: str) -> None:
    questions = '[{"question": "Tea?", "options": ["green", "black"]}]'
    async with connected(place, Answers("decline"), mode) as client:
        result = await client.call_tool("AskUserQuestion", {"questions_json": questions})
        assert "declined" in text_of(result)


@pytest.mark.process
@both_ways
async def test_a_client_that_cannot_be_asked_hears_what_is_missing(place: Any) -> None:
    async with Client(place, mode="2026-07-28") as client:
        for asking in (
            lambda: client.call_tool("greet", {}),
            lambda: client.get_prompt("letter", {}),
            lambda: client.read_resource("note://of/today"),
        ):
            with pytest.raises(MCPError) as refused:
                await asking()
            assert refused.value.error.code == -32021
            assert refused.value.error.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
    async with Client(place, mode="legacy") as client:
        result = await client.call_tool("greet", {})
        assert result.is_error and "does not offer elicitation" in str(result.content)
