"""The two functions, on every kind of target."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import mcpdesk.bridge as bridge
from mcpdesk.bridge.client import Client
from mcpdesk.bridge.tools import call_tool, client_tools, tool_schemas
from mcpdesk.errors import DeskUserError, HttpError, RpcError
from tests.support.desk import running_desk
from tests.support.scripted import json, modern, result, scripted
from tests.support.served import make_server


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
        with pytest.raises(ValueError, match="its own mode"):
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
    async with scripted(modern(lambda seen: json(result(seen, {"content": []})))) as server:
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
