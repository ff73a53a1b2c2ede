"""Outputs of every kind become one kind of result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.outcomes import read_author_lines, tool_body
from mcpdesk.server.offer.tool import Tool, ToolResult
from mcpdesk.server.schemas.validation import compile_schema


@dataclass
class Order:
    number: int
    items: list[str]


async def handler(arguments: dict[str, Any], context: Any) -> None: ...


TOOL = Tool("t", handler, {"type": "object"})


@pytest.mark.parametrize(
    ("output", "text", "structured"),
    [
        ("plain", "plain", None),
        (7, "7", None),
        (True, "true", None),
        ([1, 2], "[1,2]", None),
        ({"a": 1}, '{"a":1}', {"a": 1}),
        (Order(1, ["x"]), '{"number":1,"items":["x"]}', {"number": 1, "items": ["x"]}),
    ],
)
def test_data_becomes_text_and_objects_are_structured_too(output: Any, text: str, structured: Any) -> None:
    body = tool_body(TOOL, output, None)
    assert body["content"] == [content.text(text)]
    assert body.get("structuredContent") == structured


def test_nothing_is_no_content() -> None:
    assert tool_body(TOOL, None, None) == {"content": [], "isError": False}


def test_blocks_pass_as_they_are() -> None:
    block = content.image(b"x")
    assert tool_body(TOOL, block, None)["content"] == [block]
    assert tool_body(TOOL, [block, content.text("t")], None)["content"] == [block, content.text("t")]


def test_an_explicit_result_says_everything_itself() -> None:
    body = tool_body(TOOL, ToolResult((content.text("no"),), {"why": 1}, is_error=True, meta={"k": 1}), None)
    assert body == {
        "content": [content.text("no")],
        "isError": True,
        "structuredContent": {"why": 1},
        "_meta": {"k": 1},
    }
    assert tool_body(TOOL, ToolResult(structured={"a": 1}), None)["content"] == [content.text('{"a":1}')]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_block_that_clients_refuse_is_a_tool_error(is_listed: bool) -> None:
    odd = {"type": "image", "data": b"x", "mimeType": "image/png"}
    outputs: list[Any] = [ToolResult((odd,)), [odd] if is_listed else odd]
    for output in outputs:
        body = tool_body(TOOL, output, None)
        assert body["isError"] is True
        assert body["content"] == [
            content.text("t returned an invalid result: content[0]: data must be a text, not b'x'")
        ]


def test_metadata_that_is_no_object_is_a_tool_error() -> None:
    odd: Any = ToolResult((content.text("a"),), is_error="", meta=["k"])  # type: ignore[arg-type]
    body = tool_body(TOOL, odd, None)
    assert body["isError"] is True and "meta is not an object" in body["content"][0]["text"]
    assert tool_body(TOOL, replace(odd, meta=None), None)["isError"] is False


@pytest.mark.parametrize("odd", [{"type": "text"}, {"type": "text", "text": 5}, "text", None])
@pytest.mark.parametrize("is_error", [False, True])
def test_what_is_no_content_block_is_a_tool_error(odd: Any, is_error: bool) -> None:
    body = tool_body(TOOL, ToolResult((content.text("a"), odd), is_error=is_error), None)
    assert body["isError"] and "content[1] is not a content block" in body["content"][0]["text"]


@pytest.mark.requirement("6.4")
def test_nothing_is_a_result_where_the_schema_has_null() -> None:
    schema = {"type": ["object", "null"]}
    tool = Tool("t", handler, {"type": "object"}, output_schema=schema)
    body = tool_body(tool, None, compile_schema(schema))
    assert body == {"content": [content.text("null")], "isError": False, "structuredContent": None}


@pytest.mark.requirement("6.4")
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_has_not_violates_a_schema_of_numbers(number: float) -> None:
    schema = {"type": "object", "properties": {"mean": {"type": "number"}}}
    tool = Tool("t", handler, {"type": "object"}, output_schema=schema)
    body = tool_body(tool, {"mean": number}, compile_schema(schema))
    assert body["isError"] and "mean" in body["content"][0]["text"]
    assert not tool_body(tool, {"mean": 1.5, "note": "null and void"}, compile_schema(schema))["isError"]


@pytest.mark.parametrize("output", [object(), {1: object()}])
def test_what_is_not_json_is_a_tool_error(output: Any) -> None:
    body = tool_body(TOOL, output, None)
    assert body["isError"] is True
    assert "JSON" in body["content"][0]["text"]


def test_a_traceback_is_cut_to_the_authors_lines() -> None:
    try:
        Path("/nowhere/at/all").read_text(encoding="utf-8")
    except OSError as error:
        text, where = read_author_lines(error, Path(__file__).parent)
    assert where.startswith("test_outcomes.py:")
    assert "pathlib" not in text
    assert "FileNotFoundError" in text


@pytest.mark.parametrize("folder", [None, Path("/elsewhere")])
def test_what_was_said_on_purpose_outside_of_the_folder_needs_no_stack(folder: Path | None) -> None:
    try:
        raise HandlerError("not today")
    except HandlerError as error:
        assert read_author_lines(error, folder) == ("not today", "")
        text, where = read_author_lines(error, Path(__file__).parent)
    assert "HandlerError: not today" in text and where.startswith("test_outcomes.py:")


def test_an_exception_that_cannot_say_itself_is_described_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert outcomes.described(Mute()) == "Mute: (its text is not available: ValueError)"
    assert outcomes.described(ValueError()) == "ValueError"
