"""Signatures as input schemas, and arguments converted to the hints."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import annotated_types
import pydantic
import pytest
from mcp.server import mcpserver

from mcpdesk.errors import BadArgument, RegistrationError
from mcpdesk.hosting.folder.signatures import read_signature

if TYPE_CHECKING:
    from mcpdesk import Context


@dataclass
class Point:
    x: int
    y: int = 3


async def everything(  # type: ignore[no-untyped-def]
    at: Point,
    name: Annotated[str, "who"] = "ann",
    count=2,
    when: datetime.date | None = None,
    path: Path = Path("/tmp"),
    tags: list[str] = [],  # noqa: B006
    centre: Point = Point(1),  # noqa: B008
    anything: Any = None,
    *,
    ctx,
) -> Point:
    """Do everything.

    Args:
        at: where
    """
    return at


def test_signature_becomes_a_closed_object_schema() -> None:
    schema = read_signature(everything, "a.py:1").input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["at"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert list(properties) == ["at", "name", "count", "when", "path", "tags", "centre", "anything"]
    assert properties["at"] == {"$ref": "#/$defs/Point", "description": "where"}
    assert properties["name"] == {"type": "string", "description": "who", "default": "ann"}
    assert properties["count"] == {"type": "integer", "default": 2}
    assert properties["path"] == {"type": "string", "default": "/tmp"}
    assert properties["centre"]["default"] == {"x": 1, "y": 3}
    assert properties["anything"] == {}
    assert properties["when"] == {"type": "string", "format": "date"}, "left out is not null"


def test_arguments_become_what_the_hints_say() -> None:
    bound = read_signature(everything, "a.py:1").bind(
        {"at": {"x": 5.0}, "when": "2026-01-02", "path": "/x", "name": "null"}, "the context"
    )
    assert bound == {
        "at": Point(5),
        "when": datetime.date(2026, 1, 2),
        "path": Path("/x"),
        "name": "null",
        "ctx": "the context",
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"at": {"x": 1}, "when": "soon"}, "when: .*date"),
        ({"at": {"x": 1}, "count": 1e30}, "count: must be a whole number of 64 bits"),
        ({"at": {"x": 1e30}}, r"at\.x: must be a whole number of 64 bits"),
    ],
)
def test_argument_of_no_use_is_a_readable_failure(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadArgument, match=complaint):
        read_signature(everything, "a.py:1").bind(arguments, None)


async def by_annotation(c: Context) -> None: ...
async def by_name(context) -> None: ...  # type: ignore[no-untyped-def]
async def optional(context: Context | None = None) -> None: ...
async def not_a_context(context: str) -> None: ...


@pytest.mark.parametrize(
    ("function", "name"),
    [(by_annotation, "c"), (by_name, "context"), (optional, "context"), (not_a_context, "")],
)
def test_context_parameter_is_found_by_annotation_or_name(function: Any, name: str) -> None:
    found = read_signature(function, "a.py:1")
    assert found.context_name == name
    assert list(found.input_schema["properties"]) == ([] if name else ["context"])


async def returns_point() -> Point: ...  # type: ignore[empty-body]
async def returns_list() -> list[int]: ...  # type: ignore[empty-body]
async def returns_text() -> str: ...  # type: ignore[empty-body]
async def returns_maybe() -> Point | None: ...
async def returns_blocks() -> list[dict[str, Any]]: ...  # type: ignore[empty-body]
async def returns_unsaid(): ...  # type: ignore[no-untyped-def]


def test_return_type_with_structure_is_the_output_schema() -> None:
    schema = read_signature(returns_point, "").output_schema
    assert schema is not None
    assert schema["type"] == "object"
    assert read_signature(returns_list, "").output_schema == {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize("function", [returns_text, returns_maybe, returns_blocks, returns_unsaid])
def test_return_type_without_structure_declares_nothing(function: Any) -> None:
    assert read_signature(function, "").output_schema is None


async def bad_parameter(fine: int, odd: complex) -> None: ...
async def bad_union(value: Point | dict[str, int]) -> None: ...
async def bad_return() -> complex: ...  # type: ignore[empty-body]
async def unknown_name(value: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821
async def many(*values: int) -> None: ...
async def keywords(**values: int) -> None: ...
async def positional(value: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (
            bad_parameter,
            r"the type of parameter odd has no JSON Schema: .*; use INPUT_SCHEMA and handler\(args",
        ),
        (bad_union, "the type of parameter value has no JSON Schema"),
        (bad_return, "the return type has no JSON Schema: .*; omit the annotation if clients do not need it"),
        (unknown_name, "'Nowhere' is not defined"),
        (many, r"parameter \*values.* cannot be given by name"),
        (keywords, r"parameter \*\*values.* cannot be given by name"),
        (positional, "cannot be given by name"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_its_place(function: Any, complaint: str) -> None:
    with pytest.raises(RegistrationError, match=f"tools/a.py:7: .*{complaint}"):
        read_signature(function, "tools/a.py:7")


def test_bounds_of_pydantic_and_annotated_types_reach_the_schema() -> None:
    async def order(
        amount: Annotated[int, pydantic.Field(ge=1, le=9, description="how many", examples=[2])],
        code: Annotated[str, annotated_types.Len(2, 4), pydantic.StringConstraints(pattern="^[a-z]+$")],
        marks: list[Annotated[float, annotated_types.Interval(gt=0, lt=6)]],
        tags: Annotated[list[str] | None, annotated_types.MaxLen(3), "labels"] = None,
        share: float = pydantic.Field(0.5, multiple_of=0.25, title="Share"),
        ids: list[int] = pydantic.Field(default_factory=list),  # noqa: B008
        must: int = pydantic.Field(...),
    ) -> str:
        return f"{share} {ids}"

    signature = read_signature(order, "a.py:1")
    properties = signature.input_schema["properties"]
    assert signature.input_schema["required"] == ["amount", "code", "marks", "must"]
    assert properties["amount"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "examples": [2], "description": "how many",
    }  # fmt: skip
    assert properties["code"] == {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"}
    assert properties["marks"]["items"] == {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 6}
    assert properties["tags"]["maxItems"] == 3
    assert properties["tags"]["description"] == "labels"
    assert properties["share"] == {"type": "number", "multipleOf": 0.25, "title": "Share", "default": 0.5}
    assert properties["ids"]["default"] == []


def test_a_parameter_left_out_gets_the_default_its_field_gives() -> None:
    async def order(
        share: Annotated[float, pydantic.Field(default=0.5)],
        ids: list[int] = pydantic.Field(default_factory=list),  # noqa: B008
    ) -> None: ...

    signature = read_signature(order, "a.py:1")
    first = signature.bind({}, None)
    assert first == {"share": 0.5, "ids": []}
    first["ids"].append(1)
    assert signature.bind({"share": 2}, None) == {"share": 2.0, "ids": []}, "each call has a list of its own"
    assert not signature.takes_json


@dataclass
class Row:
    size: Annotated[int, annotated_types.Gt(3), pydantic.Field(description="in pixels")]


def test_bounds_of_fields_of_a_dataclass_are_honoured() -> None:
    async def put(row: Row) -> None: ...

    row = read_signature(put, "a.py:1").input_schema["$defs"]["Row"]
    assert row["properties"]["size"] == {
        "type": "integer", "exclusiveMinimum": 3, "description": "in pixels",
    }  # fmt: skip


def test_an_alias_is_refused_because_arguments_have_the_names_of_parameters() -> None:
    async def put(row: Annotated[int, pydantic.Field(alias="zeile")]) -> None: ...

    with pytest.raises(
        RegistrationError, match=r"parameter row: Field.* is not supported: an argument has the name"
    ):
        read_signature(put, "a.py:1")


def test_the_context_of_another_framework_is_refused_with_its_place() -> None:
    async def put(row: int, ctx: mcpserver.Context) -> None: ...

    with pytest.raises(RegistrationError, match=r"ctx is a Context of mcp.*use .from mcpdesk") as told:
        read_signature(put, "tools/a.py:7")
    assert told.value.source == "tools/a.py:7"
