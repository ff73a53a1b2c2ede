"""JSON Schemas as shapes: references, alternatives, branches and what fits them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.catalogue.schema_shapes import (
    Schema,
    alternatives,
    is_fitting,
    named_types,
    property_shapes,
    resolve,
    shape_alternatives,
    split_null,
    with_branches,
)

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": NUMBER}},
        {"$ref": "#/definitions/x", "definitions": {"x": {"properties": {"a": NUMBER}}}},
        {"allOf": [{"properties": {"b": TEXT}}, {"properties": {"a": NUMBER}}]},
        {"anyOf": [{"properties": {"b": TEXT}}, {"properties": {"a": NUMBER}}]},
        {"oneOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"properties": {"a": NUMBER}}}},
        {"if": {}, "then": {"properties": {"a": NUMBER}}},
        {"if": {}, "else": {"allOf": [{"properties": {"a": NUMBER}}]}},
        {"properties": {"b": NUMBER, "a": {"$ref": "#/properties/b"}}},
        {"properties": {"a": {"$ref": "#number"}}, "$defs": {"x": {**NUMBER, "$anchor": "number"}}},
        {"properties": {"b": TEXT}, "dependentSchemas": {"b": {"properties": {"a": NUMBER}}}},
        {"properties": {"b": TEXT}, "dependencies": {"b": {"properties": {"a": NUMBER}}, "c": ["b"]}},
        {"properties": {"b": TEXT}, "additionalProperties": NUMBER},
    ],
)
def test_a_member_is_found_wherever_the_schema_describes_it(schema: dict[str, Any]) -> None:
    (shape,) = property_shapes(schema, "a", schema)
    assert shape.items() >= NUMBER.items()


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}]},
        {"allOf": 5, "anyOf": "x", "properties": [], "then": 1, "required": {}},
        {"allOf": [True, None, {"properties": 3}], "dependentSchemas": []},
        {"type": {"a": 1}, "enum": 3, "$ref": 7},
        {"type": None, "properties": None, "required": None},
        {"type": [None, 5], "properties": [{"name": "a"}], "required": "a"},
        {"$ref": "#nowhere", "minLength": "2", "maximum": True, "minItems": 1.5},
    ],
)
def test_odd_schemas_give_a_shape_and_no_error(schema: dict[str, Any]) -> None:
    assert isinstance(with_branches(resolve(schema, schema), schema), dict)
    assert list(property_shapes(schema, "a", schema)) == []
    assert all(isinstance(named_types(shape), tuple) for shape in shape_alternatives(schema, schema))
    assert is_fitting("x", schema, schema) in (True, False)


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        ("five", NUMBER, False),
        (5, NUMBER, True),
        (5.0, NUMBER, True),
        (5.5, NUMBER, False),
        (True, NUMBER, False),
        (None, TEXT, False),
        (None, {"anyOf": [TEXT, {"type": "null"}]}, True),
        ("x", {"enum": ["a", "b"]}, False),
        (1, {"const": True}, False),
        (0, {"type": "number", "exclusiveMinimum": 0}, False),
        (7, {"minimum": 1, "maximum": 7}, True),
        ("abc", {"maxLength": 2}, False),
        ([], {"minItems": 1}, False),
        ("x", {"type": "str"}, True),
        ("x", {}, True),
    ],
)
def test_a_value_fits_type_constants_and_bounds(value: Any, schema: dict[str, Any], fits: bool) -> None:
    assert is_fitting(value, schema, schema) is fits


@pytest.mark.parametrize(
    ("word", "values", "fitting"),
    [
        ("minimum", (1, 2, 3), (2, 3)),
        ("maximum", (1, 2, 3), (1, 2)),
        ("exclusiveMinimum", (1, 2, 3), (3,)),
        ("exclusiveMaximum", (1, 2, 3), (1,)),
        ("minLength", ("a", "ab", "abc"), ("ab", "abc")),
        ("maxLength", ("a", "ab", "abc"), ("a", "ab")),
        ("minItems", ([1], [1, 2], [1, 2, 3]), ([1, 2], [1, 2, 3])),
        ("maxItems", ([1], [1, 2], [1, 2, 3]), ([1], [1, 2])),
    ],
)
def test_a_bound_limits_only_values_of_its_type(
    word: str, values: tuple[Any, ...], fitting: tuple[Any, ...]
) -> None:
    schema = {word: 2}
    assert tuple(value for value in values if is_fitting(value, schema, schema)) == fitting
    others: list[Any] = [
        None,
        True,
        {},
        *([] if "imum" in word else [9, 0]),
        *(["x"] if "Items" in word else []),
    ]
    assert all(is_fitting(other, schema, schema) for other in others)
    assert all(is_fitting(value, {word: odd}, {}) for value in values for odd in (True, "2", None))


SELF = {"$ref": "#"}
CIRCLES: list[Schema] = [
    {"anyOf": [SELF] * 6},
    {"oneOf": [SELF] * 6, "anyOf": [SELF] * 6},
    {"allOf": [SELF] * 6},
    {"then": SELF, "else": SELF, "anyOf": [SELF] * 6},
    {"$ref": "#/$defs/0"}
    | {"$defs": {str(at): {"allOf": [{"$ref": f"#/$defs/{at + 1}"}] * 6} for at in range(20)}},
]
"""Schemas whose parts multiply with each level: checking all of them would take years."""


@pytest.mark.parametrize("schema", CIRCLES, ids=range(len(CIRCLES)))
def test_a_schema_whose_parts_multiply_is_looked_at_in_part(schema: Schema) -> None:
    assert list(property_shapes(schema, "missing", schema)) == []
    assert is_fitting(1, schema, schema)
    assert split_null(resolve(schema, schema), schema)[1] is False
    assert with_branches(resolve(schema, schema), schema).get("properties") is None
    assert isinstance(alternatives(resolve(schema, schema), schema), list)
