"""Compiled schemas: what is accepted, what is said about the rest, and what is refused to be compiled."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.server.schema import Failure, SchemaError, compile_schema

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}
ARGUMENTS: dict[str, Any] = {
    "type": "object",
    "$defs": {"point": POINT},
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 3},
        "level": {"enum": ["low", "high", 3]},
        "at": {"$ref": "#/$defs/point"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
        "many": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2},
        "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def only(value: Any, schema: dict[str, Any] = ARGUMENTS) -> Failure:
    failures = compile_schema(schema).failures(value)
    assert len(failures) == 1, failures
    return failures[0]


def test_valid_value_has_no_failures() -> None:
    check = compile_schema(ARGUMENTS)
    assert check.accepts({"name": "ann", "at": {"x": 1}, "maybe": None, "many": [1, 2]})
    assert check.failures({"name": "ann"}) == []


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({}, ("name",), "is required"),
        ({"name": 5}, ("name",), "has to be a string, not an integer"),
        ({"name": ""}, ("name",), "has to have at least 1 character"),
        ({"name": "anna"}, ("name",), "has to have at most 3 characters"),
        ({"name": "ann", "level": "mid"}, ("level",), 'has to be one of: "low", "high", 3'),
        ({"name": "ann", "at": {"x": "1"}}, ("at", "x"), "has to be an integer, not a string"),
        ({"name": "ann", "at": {}}, ("at", "x"), "is required"),
        ({"name": "ann", "many": [1, 0]}, ("many", 1), "has to be at least 1"),
        ({"name": "ann", "many": [1, 1, 1]}, ("many",), "has to have at most 2 items"),
        ({"name": "ann", "levle": "low"}, ("levle",), "is not known; did you mean level?"),
        ({"name": "ann", "at": {"x": 1, "zz": 1}}, ("at", "zz"), "is not known; allowed: x, y"),
        (
            {"name": "ann", "mixed": True},
            ("mixed",),
            "has to be a string, not a boolean or has to be an integer, not a boolean",
        ),
        ([], (), "has to be an object, not an array"),
    ],
)
def test_failure_names_the_path_and_what_is_allowed(value: Any, path: tuple[Any, ...], message: str) -> None:
    assert only(value) == Failure(path, message)


def test_alternatives_speak_of_the_one_that_was_meant() -> None:
    assert only({"name": "ann", "maybe": {"x": 1, "y": "2"}}).path == ("maybe", "y")


def test_failures_never_repeat_the_value() -> None:
    assert "hunter2" not in repr(compile_schema(ARGUMENTS).failures({"name": "hunter2", "level": "hunter2"}))


def test_failures_are_limited() -> None:
    check = compile_schema({"items": {"type": "string"}})
    assert len(check.failures(list(range(100)), limit=7)) == 7


def test_long_enumerations_are_shortened() -> None:
    assert only("x", {"enum": list(range(40))}).message.endswith("10, 11 and 28 more")


def test_draft_07_tuples_are_understood() -> None:
    check = compile_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    )
    assert check.accepts(["a", 1])
    assert not check.accepts([1])


@pytest.mark.requirement("12.7")
def test_look_around_patterns_work_and_cannot_run_away() -> None:
    check = compile_schema({"pattern": r"^(a|aa)+(?=b)b$"})
    assert check.accepts("aab")
    assert not check.accepts("a" * 20_000)


def test_recursive_schema_goes_as_deep_as_the_value() -> None:
    check = compile_schema({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert check.accepts({"child": {"child": {}}})
    assert check.failures({"child": {"child": 1}})[0].path == ("child", "child")


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"type": "strin"}, "not a valid JSON Schema at type"),
        ({"pattern": "("}, "not a valid JSON Schema at pattern"),
        ({"$schema": "urn:unknown"}, "Unknown meta-schema"),
        ({"$ref": "http://example.com/x"}, "leaves the schema"),
    ],
)
def test_unusable_schema_is_refused_with_a_reason(schema: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        compile_schema(schema)


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "low", "x"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ARGUMENTS["properties"], "x", "y"]), inner, max_size=4)
    ),
)


@given(VALUES)
def test_verdicts_agree_with_the_reference_implementation(value: Any) -> None:
    check = compile_schema(ARGUMENTS)
    valid = jsonschema.Draft202012Validator(ARGUMENTS).is_valid(value)
    assert check.accepts(value) == valid
    assert bool(check.failures(value)) != valid
