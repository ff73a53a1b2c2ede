"""Every keyword of JSON Schema that fails is explained by what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.schemas.validation import compile_schema


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "boolean"}, 1, "has to be true or false, not an integer"),
        ({"type": ["string", "null"]}, 1.5, "has to be null or a string, not a number"),
        ({"type": "array"}, {}, "has to be an array, not an object"),
        ({"type": "integer"}, None, "has to be an integer, not null"),
        ({"const": {"a": 1}}, 2, 'has to be {"a": 1}'),
        ({"minimum": 3}, 2, "has to be at least 3"),
        ({"maximum": 3}, 4, "has to be at most 3"),
        ({"exclusiveMinimum": 3}, 3, "has to be more than 3"),
        ({"exclusiveMaximum": 3}, 3, "has to be less than 3"),
        ({"multipleOf": 5}, 3, "has to be a multiple of 5"),
        ({"minLength": 2}, "a", "has to have at least 2 characters"),
        ({"minItems": 1}, [], "has to have at least 1 item"),
        ({"maxItems": 1}, [1, 2], "has to have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "has to have no item twice"),
        ({"contains": {"type": "string"}}, [1], "lacks an item that it has to contain"),
        ({"minProperties": 2}, {"a": 1}, "has to have at least 2 members"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "has to have at most 1 member"),
        ({"pattern": "^a+$"}, "b", "has to match the pattern ^a+$"),
        ({"not": {"type": "string"}}, "x", "has a form that is ruled out"),
        ({"properties": {"a": False}}, {"a": 1}, "is not allowed here"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1},
         "has a name that is not allowed: has to have at most 1 character"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "is required"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1,
         "fits more than one of the alternatives, and has to fit exactly one"),
        ({"unevaluatedProperties": False}, {"a": 1}, "is not known; none are allowed here"),
        ({"enum": [1, None, "x"]}, 2, 'has to be one of: 1, null, "x"'),
    ],
)  # fmt: skip
def test_each_keyword_says_what_is_allowed(schema: dict[str, Any], value: Any, message: str) -> None:
    assert [each.message for each in compile_schema(schema).failures(value)] == [message]


def test_branch_is_told_by_its_constant() -> None:
    kinds = [
        {"properties": {"kind": {"const": kind}, kind: {"type": "integer"}}, "required": ["kind", kind]}
        for kind in ("circle", "square")
    ]
    failures = compile_schema({"oneOf": kinds}).failures({"kind": "circle", "circle": "wide"})
    assert failures
