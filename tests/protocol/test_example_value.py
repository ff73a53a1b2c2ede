"""Example values fit the schema they are made for."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.catalogue.example_value import example_value
from mcpdesk.server.schemas.validation import compile_schema

NESTED = {"type": "object", "required": ["k", "n"], "properties": {"k": {"type": "number", "maximum": -2.5}}}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 3}, "b": {}}},
    {"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"type": "null"}, NESTED]}}},
    {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": NESTED}},
    {"type": "array", "minItems": 2, "items": {"type": ["string", "null"], "minLength": 3}},
    {"type": "object", "required": ["x"], "properties": {"x": {"enum": ["red", "blue"]}}},
    {"type": "object", "required": ["x"], "properties": {"x": {"const": 5}}},
    {"type": "integer", "exclusiveMinimum": 7},
    {"type": "boolean"},
    {"type": "integer", "minimum": 2, "examples": []},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_value_fits(schema: dict[str, Any]) -> None:
    assert not compile_schema(schema).failures(example_value(schema, schema))


def test_a_schema_that_contains_itself_ends() -> None:
    schema = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}}
    assert set(example_value(schema, schema)) == {"next"}


def test_a_list_has_the_items_that_the_schema_requires_up_to_twenty() -> None:
    three = {"type": "array", "minItems": 3, "items": {"type": "boolean"}}
    assert example_value(three, three) == [False] * 3
    many = three | {"minItems": 1_000_000}
    assert example_value(many, many) == [False] * 20


def test_lists_that_contain_themselves_end() -> None:
    schema = {"type": "array", "minItems": 1, "items": {"$ref": "#"}}
    value, depth = example_value(schema, schema), 0
    while value:
        (value,) = value
        depth += 1
    assert depth == 8
