"""Claims about known clients: each has a source, is found where it should be, and only there."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcpdesk.features.contract.known_clients import (
    CHECKS,
    OfferedItem,
    Offering,
    claims,
    client_features,
    client_findings,
)
from tests.support.folders import write

TEXT = {"type": "string"}


def tool(name: str = "find", hint: bool = True, **definition: Any) -> OfferedItem:
    annotations: dict[str, Any] = {"annotations": {"readOnlyHint": True}} if hint else {}
    annotations["_meta"] = {"anthropic/maxResultSizeChars": 100_000}
    schema = {"type": "object", "properties": {"a": TEXT}}
    return OfferedItem(
        "tool", name, {"name": name, "inputSchema": schema, **annotations, **definition}, "tools/a.py:1"
    )


def arguments(**schema: Any) -> OfferedItem:
    return tool(inputSchema={"type": "object", **schema})


def choices(depth: int, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema below so many levels of alternatives."""
    for _ in range(depth):
        schema = {"anyOf": [schema]}
    return schema


def offer(*items: OfferedItem, server: str = "s", instructions: str = "", **asks: str) -> Offering:
    return Offering(server, instructions, items, asks)


def told(offering: Offering, *clients: str) -> list[str]:
    return [f"{each.claim.client}/{each.claim.check}" for each in client_findings(offering, clients)]


def test_each_claim_has_a_source_and_a_day() -> None:
    for claim in claims():
        assert claim.check in CHECKS
        parts = urlsplit(claim.source)
        assert parts.scheme == "https" and "." in parts.netloc and len(parts.path) > 1
        assert date(2024, 11, 1) < date.fromisoformat(claim.date)
        assert "{" not in claim.effect.replace("{feature}", "")
    assert {claim.check for claim in claims()} == CHECKS.keys()
    assert len({claim.client for claim in claims()}) >= 10


@pytest.mark.parametrize(
    ("offering", "expected"),
    [
        (offer(tool("n" * 59)), ["Cursor/called", "Gemini CLI/called"]),
        (offer(tool("n" * 58)), []),
        (offer(tool("find", _meta={})), ["Claude Code/result_size"]),
        (offer(tool("a.b")), ["Claude Code/tool_name"]),
        (offer(tool(description="d" * 1025)), ["OpenAI API/description", "Gemini CLI/description"]),
        (
            offer(tool(description="d" * 2049)),
            ["Claude Code/description", "OpenAI API/description", "Gemini CLI/description"],
        ),
        (offer(instructions="i" * 2049), ["Claude Code/instructions"]),
        (offer(*(tool(f"t{n}") for n in range(81))), ["Cursor/tool_count"]),
        (
            offer(*(tool(f"t{n}") for n in range(129))),
            ["Cursor/tool_count", "VS Code/tool_count", "Windsurf/tool_count"],
        ),
        (offer(arguments(anyOf=[{}])), ["Claude Code/root_keyword", "OpenAI API/root_keyword"]),
        (offer(arguments(properties={"a": {"anyOf": [TEXT]}})), []),
        (offer(arguments(properties={"a b": TEXT})), ["Claude Code/parameter_name"]),
        (offer(arguments(properties={"a": {"type": "array"}})), ["VS Code/array_items"]),
        (
            offer(arguments(properties={"a": {"anyOf": [{"type": ["array", "null"]}]}})),
            ["VS Code/array_items"],
        ),
        (offer(arguments(properties={"a": choices(11, {"type": "array"})})), ["VS Code/array_items"]),
        (offer(arguments(properties={"a": {"type": "array", "items": {}}})), []),
        (offer(arguments(properties={"a": {"items": {"$ref": "#/$defs/b"}}})), ["Gemini CLI/reference"]),
        (offer(arguments(properties={"a": {"additionalProperties": TEXT}})), ["Gemini CLI/open_object"]),
        (offer(arguments(additionalProperties=False)), []),
        (
            offer(tool(outputSchema={"properties": {}})),
            ["TypeScript SDK/output_type", "Claude Code/structured_output"],
        ),
        (offer(tool(hint=False)), ["Claude Desktop/unsaid_hint", "ChatGPT/unsaid_hint"]),
        (offer(OfferedItem("prompt", "p", {})), ["ChatGPT/lacks", "Codex/lacks", "Windsurf/lacks"]),
        (
            offer(OfferedItem("template", "a://{b}", {})),
            ["ChatGPT/lacks", "Gemini CLI/lacks", "Windsurf/lacks", "Zed/lacks"],
        ),
        (
            offer(elicitation="tools/a.py:3"),
            ["Claude Desktop/lacks", "ChatGPT/lacks", "Gemini CLI/lacks", "Windsurf/lacks", "Zed/lacks"],
        ),
    ],
)
def test_what_is_offered_is_recognised(offering: Offering, expected: list[str]) -> None:
    assert told(offering) == expected


def test_a_finding_says_what_is_there_and_what_the_client_does() -> None:
    required = tool("slow", execution={"taskSupport": "required"})
    found = client_findings(offer(required, tool("n" * 59), server="ss"), ["VS Code", "Cursor"])
    assert [str(each.finding()) for each in found] == [
        f"tools/a.py:1: warning: tool {'n' * 59}: with its server it is ss{'n' * 59}, 61 characters; "
        "Cursor: omits the tool (limit: 59 characters)",
        "note: tools that can be tasks: slow; Cursor: is not listed as supporting tasks in the MCP "
        "documentation",
        "note: tools that can be tasks: slow; VS Code: is not listed as supporting tasks in the MCP "
        "documentation",
    ]


def test_what_a_folder_asks_of_clients_is_found_in_its_files(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "s",
        {
            "tools/a.py": """
                import random

                async def a(ctx):
                    random.sample([1], 1)
                    return await ctx.elicit("Which?", {})

                def b(context):
                    def inner():
                        return context.list_roots()
                    return inner()
                """,
            "tools/broken.py": "async def (",
            ".venv/lib.py": "def f(ctx):\n    ctx.sample('x')\n",
        },
    )
    assert client_features(folder) == {"elicitation": "tools/a.py:5", "roots": "tools/a.py:9"}


def test_a_claim_is_stale_after_ninety_days() -> None:
    claim = claims()[0]
    day = date.fromisoformat(claim.date)
    assert not claim.is_stale(day + timedelta(days=90))
    assert claim.is_stale(day + timedelta(days=91))
