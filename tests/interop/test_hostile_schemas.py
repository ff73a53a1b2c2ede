"""Schemas and arguments made to cost: such a tool cannot be called, such an argument is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.site import serving


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"anyOf": [schema, {"type": "object", "properties": {"a": schema}}]}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": parts | {f"d{levels}": {"type": "string"}}}


BOMBS: dict[str, dict[str, Any]] = {
    "itself": {"$ref": "#"},
    "two that need each other": {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
    },
    "doubling references": doubling(40),
    "too deep": nested(60),
    "a reference into the network": {"$ref": "http://127.0.0.1:9/schema.json"},
    "a reference to a file": {"$ref": "file:///etc/passwd"},
    "a reference to nothing": {"$ref": "#/$defs/nothing"},
    "too many values": {"anyOf": [{"const": number} for number in range(10_000)]},
    "too many properties": {"properties": {f"p{number}": {} for number in range(10_000)}},
    "no pattern": {"properties": {"x": {"type": "string", "pattern": "(((("}}},
    "a pattern too large": {"properties": {"x": {"pattern": "((a{100}){100}){100}"}}},
}
"""Schemas that are rejected before any value is validated."""

COSTLY: dict[str, tuple[dict[str, Any], Any]] = {
    "nested repetition": ({"pattern": r"^(a+)+$"}, "a" * 50_000 + "!"),
    "alternatives that overlap": ({"pattern": r"^(a|a|aa)+$"}, "a" * 50_000 + "!"),
    "looking ahead": ({"pattern": r"^(?=(a+)+$)b"}, "a" * 5_000 + "!"),
    "a back reference": ({"pattern": r"^(a+)+\1$"}, "a" * 5_000 + "!"),
    "a list of itself": ({"type": "array", "uniqueItems": True, "maxItems": 10}, list(range(20_000))),
    "mistakes without end": ({"items": {"type": "string"}}, [0] * 400_000),
    "a value without end": ({"type": "string"}, [{}] * 300_000),
    "a name without end": ({"additionalProperties": False, "properties": {"a": {}}}, {"a" * 900_000: 1}),
    "a large list of values": ({"enum": [f"value {number}" for number in range(3_000)]}, "value"),
    "a tree of any depth": (
        {"$ref": "#/$defs/t", "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": "array"}}},
        None,
    ),
}
"""A schema, and an argument that does not fit it."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BOMBS)
async def test_a_tool_with_a_schema_that_costs_too_much_is_not_called(name: str) -> None:
    async with serving() as served:
        served.peer.server.tools.replace(
            [*served.peer.server.tools, Tool("bomb", _never, {"type": "object"} | BOMBS[name])]
        )
        answer = await (await served.modern("tools/call", {"name": "bomb", "arguments": {"x": "y"}})).json()
        assert answer["result"]["isError"] and "bomb" in answer["result"]["content"][0]["text"]
        other = await served.modern("tools/call", {"name": "echo", "arguments": {"text": "still here"}})
        assert (await other.json())["result"]["content"][0]["text"] == "still here"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", COSTLY)
async def test_an_argument_made_to_cost_is_refused(name: str) -> None:
    schema, value = COSTLY[name]
    definitions = schema.get("$defs", {})
    if value is None:
        value = 5
        for _ in range(200):
            value = [value]
    tool = Tool("costly", _never, {"type": "object", "properties": {"x": schema}, "$defs": definitions})
    async with serving() as served:
        served.peer.server.tools.replace([*served.peer.server.tools, tool])
        answer = await (
            await served.modern("tools/call", {"name": "costly", "arguments": {"x": value}})
        ).json()
        assert answer["result"]["isError"]
        assert len(answer["result"]["content"][0]["text"]) < 20_000


async def _never(arguments: dict[str, Any], context: Context) -> Any:
    raise AssertionError("it was called")
