"""The sample server for the official suite works as its names say, also on machines without Node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from pydantic import FileUrl

from mcpdesk.paths import sample_servers
from tests.support.desk import RunningDesk, running_desk

VALUES = {"string": "Ada", "integer": 36, "number": 1.5, "boolean": True}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "test_sampling": {"prompt": "Hi"},
    "test_elicitation": {"message": "Who?"},
    "test_x_mcp_header": {"region": "eu"},
    "json_schema_2020_12_tool": {"name": "Ada", "email": "ada@example.org"},
    "greet": {"name": "Ada"},
    "slow_compute": {"seconds": 0.01},
}
REFUSED = {
    "failing_job": (-32601, -32021),
    "test_tool_with_task": (-32601, -32021),
    "protocol_error_job": (-32603, -32603),
}
"""Tools that answer with an error; two of them run only as tasks. Error code in either era."""


async def fill(context: Any, params: Any) -> Any:
    """Fill in any form."""
    fields = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={name: _value(each) for name, each in fields.items()})


def _value(field: dict[str, Any]) -> Any:
    if field["type"] == "array":
        return [_choices(field["items"])[0]]
    choices = _choices(field)
    return choices[0] if choices else VALUES[field["type"]]


def _choices(field: dict[str, Any]) -> list[Any]:
    titled = field.get("oneOf") or field.get("anyOf") or []
    return list(field.get("enum", ())) or [each["const"] for each in titled]


async def sample(context: Any, params: Any) -> Any:
    text = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


async def roots(context: Any) -> Any:
    return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home/ada"))])


@asynccontextmanager
async def connected(mode: str) -> AsyncIterator[tuple[RunningDesk, Client]]:
    """The sample over HTTP, and a client of one era that answers every question."""
    async with (
        running_desk(sample_servers() / "conformance", http=True) as desk,
        Client(
            desk.view().servers[0].url,
            mode=mode,
            elicitation_callback=fill,
            sampling_callback=sample,
            list_roots_callback=roots,
            read_timeout_seconds=10,
        ) as client,
    ):
        yield desk, client


both_eras = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@pytest.mark.slow
@both_eras
async def test_every_tool_answers_and_only_one_means_to_fail(mode: str) -> None:
    async with connected(mode) as (_, client):
        tools = (await client.list_tools()).tools
        results = {
            each.name: await client.call_tool(each.name, ARGUMENTS.get(each.name, {}))
            for each in tools
            if each.name not in REFUSED
        }
        for name, codes in REFUSED.items():
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {})
            assert refused.value.error.code == codes[mode != "legacy"]
        assert (await client.list_tools()).tools == tools
    assert tools[0].name == "test_simple_text"
    assert [name for name, result in results.items() if result.is_error] == ["test_error_handling"]
    assert all(result.content for result in results.values())


@pytest.mark.sampled(1)
@both_eras
async def test_every_prompt_and_resource_is_there(mode: str) -> None:
    async with connected(mode) as (_, client):
        for prompt in (await client.list_prompts()).prompts:
            arguments = {each.name: f"test://{each.name}" for each in prompt.arguments or ()}
            assert (await client.get_prompt(prompt.name, arguments)).messages
        for resource in (await client.list_resources()).resources:
            assert (await client.read_resource(resource.uri)).contents
        (content,) = (await client.read_resource("test://template/123/data")).contents
        assert isinstance(content, types.TextResourceContents) and '"Data for ID: 123"' in content.text


@pytest.mark.sampled(1)
@both_eras
async def test_a_tool_that_comes_and_goes_is_told_twice(mode: str) -> None:
    async with connected(mode) as (desk, client):
        told: list[str] = []
        desk.host.by_name["conformance"].server.tools.subscribe(told.append)
        await client.call_tool("test_trigger_tool_change", {})
        assert told == ["tool", "tool"]


@pytest.mark.sampled(1)
@both_eras
async def test_arguments_of_prompts_are_completed(mode: str) -> None:
    async with connected(mode) as (_, client):
        prompt = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        found = await client.complete(prompt, {"name": "arg1", "value": "testV"}, {"arg2": "x"})
        assert (found.completion.values, found.completion.has_more) == (["testValue1"], False)
        with pytest.raises(MCPError) as refused:
            await client.complete(prompt, {"name": "arg3", "value": ""})
        assert refused.value.error.code == -32602
