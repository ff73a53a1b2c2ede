"""Tools out of functions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.server.tool import Tool
from tests.support.module import found_in


def tool_in(folder: Path, text: str) -> Tool:
    found = found_in(folder, text)
    assert found.broken == []
    (tool,) = found.items
    assert isinstance(tool, Tool)
    return tool


async def call(tool: Tool, arguments: dict[str, Any], made: Any = None, claims: Any = None) -> Any:
    given = SimpleNamespace(context=made, claims=claims)
    return await tool.handler(arguments, given)  # type: ignore[arg-type]


async def test_a_handler_of_all_arguments_finds_the_claims_among_them(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        INPUT_SCHEMA = {"type": "object", "additionalProperties": False}
        REQUIRES_JWT = True
        SCOPES = "wallet:send"

        async def handler(args):
            return args
        """,
    )
    assert (tool.requires_jwt, tool.scopes) == (True, ("wallet:send",))
    arguments: dict[str, Any] = {}
    assert await call(tool, arguments, claims={"sub": "ada"}) == {"__jwt": {"sub": "ada"}}
    assert await call(tool, arguments) == {} == arguments


async def test_scopes_that_are_no_texts_are_refused(tmp_path: Path) -> None:
    found = found_in(tmp_path, "SCOPES = 5\nasync def handler(args):\n    return args\n")
    assert "SCOPES has to be a text or a list of texts" in found.broken[0][1].reason


async def test_decorator_says_what_hints_cannot(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        from mcpdesk import tool

        @tool(name="Sum.Up", title="Sum", timeout=2.5, requires_jwt=True, runs_programs=True, read_only=True,
              annotations={"custom": 1}, icons=["data:,"], meta={"a/b": 1})
        async def add(a: int, b: int = 2) -> int:
            \"\"\"Add two numbers.\"\"\"
            return a + b
        """,
    )
    assert (tool.name, tool.title, tool.description) == ("Sum.Up", "Sum", "Add two numbers.")
    assert tool.annotations == {"readOnlyHint": True, "custom": 1}
    assert (tool.timeout_s, tool.requires_jwt, tool.runs_programs) == (2.5, True, True)
    assert tool.icons == ({"src": "data:,"},)
    assert tool.meta == {"a/b": 1}
    assert tool.source == "tools/my_file.py:5"
    assert tool.output_schema == {"type": "integer"}
    assert await call(tool, {"a": 1}) == 3


async def test_handler_module_brings_its_own_schemas(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        NAME = "look"
        TITLE = "Look"
        DESCRIPTION = "Look it up."
        INPUT_SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
        OUTPUT_SCHEMA = {"type": "object"}
        ANNOTATIONS = {"readOnlyHint": True}
        async def handler(args, context):
            return {"id": args["id"], "by": context}
        """,
    )
    assert (tool.name, tool.title, tool.description) == ("look", "Look", "Look it up.")
    assert tool.input_schema["properties"] == {"id": {"type": "string"}}
    assert tool.output_schema == {"type": "object"}
    assert tool.annotations == {"readOnlyHint": True}
    assert await call(tool, {"id": "7"}, "ann") == {"id": "7", "by": "ann"}


async def test_handler_is_named_after_its_file_and_may_ask_for_more_or_less(tmp_path: Path) -> None:
    alone = tool_in(tmp_path / "a", 'async def handler(args):\n    """Doc."""\n    return args')
    assert (alone.name, alone.description) == ("my-file", "Doc.")
    assert await call(alone, {"x": 1}) == {"x": 1}
    full = tool_in(tmp_path / "b", "async def handler(args, made, ctx): return made, ctx.context")
    assert await call(full, {}, "made") == ("made", "made")


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("\ndef handler(args, context): yield 1", "handler yields", 2),
        ("async def handler(): ...", "handler takes (args)", 1),
        ("NAME = 'no spaces'\nasync def handler(args): ...", "is not a tool name", 2),
        ("\nINPUT_SCHEMA = {'type': 'strin'}\nasync def handler(args): ...", '"type": "object"', 2),
        ("INPUT_SCHEMA = []\nasync def handler(args): ...", "has to be a dict, not list", 1),
        (
            "INPUT_SCHEMA = {'type': 'object', 'required': 'everything'}\nasync def handler(args): ...",
            "INPUT_SCHEMA cannot be used: not a valid JSON Schema",
            1,
        ),
        (
            "async def handler(args): ...\nOUTPUT_SCHEMA = {'$ref': 'http://example.org'}",
            "OUTPUT_SCHEMA cannot be used: $ref",
            2,
        ),
        (
            "from mcpdesk import tool\n@tool(timeout=0)\nasync def a(): ...",
            "timeout has to be more than 0",
            3,
        ),
        (
            "from mcpdesk import tool\n@tool(task='sometimes')\nasync def a(): ...",
            "task is 'forbidden', 'optional' or 'required', not 'sometimes'",
            3,
        ),
        (
            "from mcpdesk import tool\n@tool(asks_first=True)\nasync def a(): ...",
            "asks_first is for tools that may be tasks",
            3,
        ),
        (
            "from typing import Annotated\nfrom mcpdesk import Meta\n"
            "async def a(x: Annotated[str, Meta(pattern='(?P<n>a)(?P=n)')]): ...",
            "the schema cannot be used",
            3,
        ),
    ],
)
def test_unusable_tool_is_refused_with_its_line(tmp_path: Path, text: str, reason: str, line: int) -> None:
    ((kind, unavailable),) = found_in(tmp_path, text).broken
    assert kind == "tool"
    assert reason in unavailable.reason
    assert unavailable.source == f"tools/my_file.py:{line}"


def test_arguments_a_header_repeats_are_annotated_in_hints_and_schemas(tmp_path: Path) -> None:
    typed = tool_in(
        tmp_path / "a",
        """
        from typing import Annotated
        from mcpdesk import Meta

        async def f(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})] = "eu"): ...
        """,
    )
    handled = tool_in(
        tmp_path / "b",
        """
        INPUT_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "x-mcp-header": "Id"}}}
        async def handler(args): ...
        """,
    )
    assert [each.header for each in (*typed.mirrored, *handled.mirrored)] == [
        "mcp-param-region",
        "mcp-param-id",
    ]
    assert typed.input_schema["properties"]["region"]["x-mcp-header"] == "Region"


@pytest.mark.parametrize("hint", ["str | int", "float", "list[str]"])
def test_an_argument_no_header_can_repeat_leaves_the_tool_out(tmp_path: Path, hint: str) -> None:
    found = found_in(
        tmp_path,
        f"""
        from typing import Annotated
        from mcpdesk import Meta

        async def f(a: Annotated[{hint}, Meta(extra_json_schema={{"x-mcp-header": "A"}})] = None): ...
        """,
    )
    assert found.items == []
    assert "x-mcp-header" in found.broken[0][1].reason


def test_a_schema_with_a_wrong_annotation_leaves_the_tool_out(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        """
        INPUT_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "x-mcp-header": "I d"}}}
        async def handler(args): ...
        """,
    )
    assert found.items == [] and "no header name" in found.broken[0][1].reason
    assert found.broken[0][1].source.endswith(":1")


async def test_a_parameter_can_be_repeated_in_a_header(tmp_path: Path) -> None:
    tool = tool_in(
        tmp_path,
        """
        from typing import Annotated
        from mcpdesk import header

        async def look(region: Annotated[str, header("Region"), "Where."]): ...
        """,
    )
    assert tool.input_schema["properties"]["region"] == {
        "type": "string",
        "description": "Where.",
        "x-mcp-header": "Region",
    }
    assert len(tool.mirrored) == 1


def test_support_for_tasks_is_the_authors_to_say(tmp_path: Path) -> None:
    text = "from mcpdesk import tool\n@tool({})\nasync def f(): ..."
    tools = [
        tool_in(tmp_path / str(number), text.format(options))
        for number, options in enumerate(
            ("", "task='forbidden'", "task='optional'", "task='required', asks_first=True")
        )
    ]
    assert [(each.task, each.asks_first) for each in tools] == [
        ("", False),
        ("", False),
        ("optional", False),
        ("required", True),
    ]
