"""Schemas that could cost too much, or that look outside, are refused before they are compiled."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.schemas.schema_bounds import SchemaError, check_bounds


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels + 1):
        defs[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$ref": f"#/$defs/d{levels}", "$defs": defs}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.requirement("12.7")
@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"$ref": "http://example.com/x"}, "leaves the schema"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "leaves the schema"),
        ({"$ref": "other.json#/x"}, "leaves the schema"),
        ({"$dynamicRef": "http://example.com/x#a"}, "leaves the schema"),
        ({"$ref": "#/$defs/none"}, "points to nothing"),
        ({"$ref": "#none"}, "points to nothing"),
        ({"$ref": "#"}, "refers to itself"),
        ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "refers to itself"),
        ({"items": {"$id": "http://example.com/x"}}, "only the whole schema"),
        (doubling(26), "checked more than 512 times"),
        (nested(40), "more than 48 levels"),
        ({"anyOf": [{"const": []} for _ in range(2500)]}, "more than 4000"),
    ],
)
def test_costly_or_open_schema_is_refused_with_a_reason(schema: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        check_bounds(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"const": {"$ref": "http://example.com"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"properties": {"child": {"$ref": "#"}}},
        {"$id": "http://example.com/whole", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": True}},
        {"definitions": {"n": {"$id": "#num"}}, "items": {"$ref": "#num"}},
        {
            "$defs": {"a/b~c": {}, "n": {"$anchor": "num"}},
            "anyOf": [{"$ref": "#/$defs/a~1b~0c"}, {"$ref": "#num"}],
        },
        {"anyOf": [{"type": "string"}, {"type": "null"}], "prefixItems": [{"$ref": "#/anyOf/1"}]},
        {"dependentSchemas": {"a": {"required": ["b"]}}, "dependencies": {"a": ["b"]}},
        doubling(7),
    ],
)
def test_usual_schemas_are_within_bounds(schema: dict[str, Any]) -> None:
    check_bounds(schema)


def test_long_chain_of_references_is_refused_without_deep_recursion() -> None:
    defs = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(1000)}
    with pytest.raises(SchemaError, match="by way of each other"):
        check_bounds({"$ref": "#/$defs/0", "$defs": {**defs, "1000": {}}})


def test_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["again"] = schema
    with pytest.raises(SchemaError, match="levels deep"):
        check_bounds(schema)
