"""What in a schema leaves a model guessing."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.hosting.folder.lint import parameter_trouble


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string", "description": "A text."}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object"}, []),
        (of(a=TEXT, b={"enum": [1, 2], "title": "One or two"}), []),
        (of(a={"type": "string"}), ["parameter without a description: a"]),
        (of(a={"type": "string"}, b={"type": "string"}), ["parameters without a description: a, b"]),
        (of(a={"description": "Whatever."}), ["parameter that may be anything: a"]),
        (of(a=True), ["parameter without a description: a", "parameter that may be anything: a"]),
        (
            of(a={"type": "array", "description": "Some.", "items": of(b={"type": "string"})}),
            ["parameter without a description: a[].b"],
        ),
        (of(a=TEXT | of(b={"type": "string"})), ["parameter without a description: a.b"]),
        (of(a={"$ref": "#/$defs/a"}) | {"$defs": {"a": TEXT}}, []),
        (of(**{"a b": TEXT}), ["parameter whose name model APIs refuse: a b"]),
        (of(**{"a" * 65: TEXT}), [f"parameter whose name model APIs refuse: {'a' * 65}"]),
        (
            {"type": "object", "anyOf": [{"required": ["a"]}]},
            ["anyOf stands at the top of the input schema, where model APIs refuse it"],
        ),
        (
            of(a=TEXT) | {"required": ["a", "b"], "additionalProperties": False},
            ["'b' is required and not among the properties: no call can be right"],
        ),
        (of(a=TEXT) | {"required": ["b"]}, []),
        (of(a=TEXT | {"default": 5}), ["the default 5 of a does not fit its schema"]),
        (of(a=TEXT | {"default": "x", "examples": ["y"]}), []),
        (of(a=TEXT | {"examples": ["y", 7]}), ["the example 7 of a does not fit its schema"]),
        (
            of(a={"$ref": "#/$defs/a", "default": 5}) | {"$defs": {"a": TEXT}},
            ["the default 5 of a does not fit its schema"],
        ),
        (
            of(**{f"p{n}": {"type": "string"} for n in range(11)}),
            ["parameters without a description: p0, p1, p2, p3, p4, p5, p6, p7 and 3 more"],
        ),
    ],
)
def test_trouble_with_parameters_is_named(schema: dict[str, Any], told: list[str]) -> None:
    assert list(parameter_trouble(schema)) == told


@pytest.mark.parametrize(
    "schema", [{"properties": 5}, {"properties": {"a": 7}}, {"items": [1]}, {"properties": {"a": False}}]
)
def test_what_is_no_schema_is_survived(schema: dict[str, Any]) -> None:
    list(parameter_trouble(schema))


def test_a_schema_without_end_is_looked_at_so_far() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"again": schema}
    assert any("without a description: again" in told for told in parameter_trouble(schema))
