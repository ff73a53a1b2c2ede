"""Tools as functions for a model, and the answers to its calls."""

from __future__ import annotations

import base64
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import mcpdesk.bridge as bridge
from mcpdesk.bridge.client import Client
from mcpdesk.bridge.tools import call_tool, client_tools, tool_schemas
from mcpdesk.errors import DeskUserError, HttpError, RpcError
from tests.bridge.conftest import TOOLS
from tests.support.desk import running_desk
from tests.support.scripted import Seen, http, modern, result, scripted
from tests.support.scripted import json as json_answer
from tests.support.served import make_server


def function_call(name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": text}}


def tool_use(name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"use_{name}", "name": name, "input": arguments}


async def test_every_tool_is_a_function_with_its_schema(folder: Path) -> None:
    async with Client(folder) as client:
        tools = await client_tools(client)
        assert sorted(tool.original for tool in tools) == TOOLS
        assert [tool.schema for tool in tools] == list(tools.schemas)
        words = tools["count_words"]
        assert (words.__name__, words.original, words.__doc__) == (
            "count_words",
            "count.words",
            "Count words.",
        )
        assert await words(text="a b c") == '{"words":3}'
        assert (await words.call({"text": "a"}))["structuredContent"] == {"words": 1}
        assert await tools[0](text="x") and len(tools) == 7
        assert await tools["refuse"]() == "Error: not today"
        assert tools.get("nobody") is None


async def test_tool_calls_of_chat_completions_are_answered_in_order(folder: Path) -> None:
    asked = [function_call("greet", {"name": "Ada"}), function_call("refuse", "")]
    async with Client(folder) as client:
        answers = await (await client_tools(client)).answer({"role": "assistant", "tool_calls": asked})
    assert answers == [
        {"role": "tool", "tool_call_id": "call_greet", "content": "Hello, Ada!"},
        {"role": "tool", "tool_call_id": "call_refuse", "content": "Error: not today"},
    ]


async def test_tool_uses_of_messages_are_answered_in_one_message(folder: Path) -> None:
    content = [{"type": "text", "text": "Let me see."}, tool_use("picture", {}), tool_use("refuse", None)]
    async with Client(folder) as client:
        tools = await client_tools(client, "anthropic")
        (answer,) = await tools.answer({"role": "assistant", "content": content})
    assert answer["role"] == "user"
    seen, refused = answer["content"]
    picture = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"dot").decode()}
    assert seen["tool_use_id"] == "use_picture" and "is_error" not in seen
    assert seen["content"][0]["text"] == "a dot\n[image, image/png, 3 bytes]"
    assert seen["content"][1] == {"type": "image", "source": picture}
    assert refused["is_error"] and refused["content"] == [{"type": "text", "text": "Error: not today"}]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("greet", "{", "the arguments are not JSON"),
        ("greet", "[1]", "must be an object"),
        ("greet", {"nome": 5}, "name: is required"),
        ("nobody", {}, "no tool 'nobody'; tools: "),
    ],
)
async def test_mistakes_of_the_model_are_told_to_it(
    folder: Path, name: str, arguments: Any, told: str
) -> None:
    async with Client(folder) as client:
        message = {"tool_calls": [function_call(name, arguments)]}
        (answer,) = await (await client_tools(client)).answer(message)
    assert answer["content"].startswith("Error: ") and told in answer["content"]


@pytest.mark.parametrize("message", [{}, {"tool_calls": None}, {"content": "done"}, {"content": []}])
async def test_message_that_asks_for_nothing_has_no_answer(folder: Path, message: dict[str, Any]) -> None:
    async with Client(folder) as client:
        assert await (await client_tools(client)).answer(message) == []
        assert await (await client_tools(client, "anthropic")).answer(message) == []


async def test_call_that_the_server_refuses_or_forgets_is_told_to_the_model() -> None:
    def answer(seen: Seen) -> bytes | None:
        if seen.message["method"] == "tools/list":
            return json_answer(
                result(seen, {"tools": [{"name": n, "inputSchema": {}} for n in ("no", "slow")]})
            )
        if seen.message["params"]["name"] == "slow":
            return None
        error = {"code": -32602, "message": "not for you"}
        return json_answer({"jsonrpc": "2.0", "id": seen.message["id"], "error": error})

    async with scripted(modern(answer)) as server, Client(server.url) as client:
        tools = await client_tools(client)
        told = await tools.answer({"tool_calls": [function_call("no", {})]})
        client.timeout_s = 0.3
        told += await tools.answer({"tool_calls": [function_call("slow", {})]})
    assert [each["content"] for each in told] == ["Error: not for you", "Error: slow: no answer within 0.3 s"]


async def test_what_the_model_cannot_mend_is_raised() -> None:
    def answer(seen: Seen) -> bytes:
        if seen.message["method"] == "tools/list":
            return json_answer(result(seen, {"tools": [{"name": "t", "inputSchema": {}}]}))
        return http(401)

    async with scripted(modern(answer)) as server, Client(server.url) as client:
        tools = await client_tools(client)
        with pytest.raises(HttpError):
            await tools.answer({"tool_calls": [function_call("t", {})]})


async def test_schemas_come_from_every_target(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk, Client(folder) as client:
        url = desk.view().servers[0].url
        told = [await tool_schemas(target, api="anthropic") for target in (folder, str(folder), url, client)]
    assert told[0] == told[1] == told[2] == told[3]
    assert {each["name"] for each in told[0]} >= {"greet", "count_words"}
    assert told[0].names["count_words"] == "count.words"
    assert "echo" in (await tool_schemas(make_server())).names


async def test_the_setting_model_chooses_the_api_where_none_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", "sonnet")
    assert "input_schema" in (await tool_schemas(folder))[0]
    async with Client(folder) as client:
        assert "input_schema" in (await client_tools(client))[0].schema
        assert "function" in (await tool_schemas(client, api="openai"))[0]
    monkeypatch.delenv("MODEL")
    assert "function" in (await tool_schemas(folder))[0]
    (folder / "mcpdesk-env.txt").write_text("MODEL=opus\n")
    assert "input_schema" in (await tool_schemas(folder))[0]


async def test_schemas_of_a_mode_are_those_of_its_tools(folder: Path) -> None:
    assert sorted((await tool_schemas(folder, "calm")).names) == ["count_words", "greet"]
    async with Client(folder, mode="calm") as client:
        assert len(await tool_schemas(client, "calm")) == len(await tool_schemas(client)) == 2
        with pytest.raises(ValueError, match="of an open client cannot be changed"):
            await tool_schemas(client, "other")


async def test_unknown_mode_and_api_are_told(folder: Path) -> None:
    with pytest.raises(DeskUserError, match="wild"):
        await tool_schemas(folder, "wild")
    with pytest.raises(DeskUserError, match="gemini"):
        await tool_schemas(folder, api="gemini")  # type: ignore[arg-type]


async def test_tool_is_called_on_every_target(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk, Client(folder) as client:
        for target in (folder, desk.view().servers[0].url, client):
            answer = await call_tool(target, "greet", {"name": "Ada"})
            assert bridge.format_result(answer) == "Hello, Ada!"
            with pytest.raises(RpcError):
                await call_tool(target, "nobody", {})


async def test_token_goes_along_and_time_is_limited() -> None:
    async with scripted(modern(lambda seen: json_answer(result(seen, {"content": []})))) as server:
        await call_tool(server.url, "x", {}, token="t0k")
        assert server.seen[-1].headers["authorization"] == "Bearer t0k"
    with pytest.raises(HttpError, match="cannot be reached"):
        await call_tool(server.url, "x", {}, timeout_s=5)


async def test_client_with_a_token_of_its_own_is_given_no_other(folder: Path) -> None:
    async with Client(folder) as client:
        with pytest.raises(ValueError, match="token"):
            await call_tool(client, "greet", {}, token="t")


def test_everything_public_is_documented() -> None:
    for name in bridge.__all__:
        value = getattr(bridge, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), name
        if inspect.isclass(value):
            for member, each in vars(value).items():
                if inspect.isfunction(each) and not member.startswith("_"):
                    assert inspect.getdoc(each), f"{name}.{member}"
