"""Slow patterns: each check ends in time, and accepts only text that was matched."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.schemas.validation import SchemaError, SchemaFailure, compile_schema

SLOW = r"^(a|aa)+(?=b)b$"
"""Pattern with look-around, whose steps double with each character of a text of many `a`."""
LARGE = "^[ab]*a[ab]{3000}z$"
MIDDLE = "^[ab]*a[ab]{300}z$"
"""Patterns that are matched in linear time, with large factors."""
HOSTILE = "a" * 500
TOO_SLOW = f"takes too many steps to check against the pattern {SLOW}"
NO_PATH = SchemaFailure((), TOO_SLOW)


def too_long(pattern: str, longest: int) -> str:
    return f"must have at most {longest:,} characters to be checked against the pattern {pattern}"


def test_a_pattern_without_look_around_is_linear_for_texts_of_any_length() -> None:
    check = compile_schema({"properties": {"x": {"pattern": "^(a+)+$"}}})
    assert check.accepts({"x": "a" * 1_000_000})
    [failure] = check.failures({"x": "a" * 1_000_000 + "!"})
    assert failure == SchemaFailure(("x",), "must match the pattern ^(a+)+$")


def test_a_text_that_takes_too_many_steps_is_an_error_that_names_the_pattern() -> None:
    check = compile_schema({"properties": {"x": {"pattern": SLOW}}})
    assert check.accepts({"x": "aab"}) and not check.accepts({"x": HOSTILE})
    assert check.failures({"x": HOSTILE}) == [SchemaFailure(("x",), TOO_SLOW)]
    assert check.failures({"x": "b"}) == [SchemaFailure(("x",), f"must match the pattern {SLOW}")]


@pytest.mark.parametrize(("pattern", "longest"), [(SLOW, 1_000), (LARGE, 4_000), (MIDDLE, 100_000)])
def test_a_long_text_is_not_matched_against_a_costly_pattern(pattern: str, longest: int) -> None:
    check = compile_schema({"properties": {"x": {"pattern": pattern}}})
    [failure] = check.failures({"x": "b" * (longest + 1)})
    assert failure == SchemaFailure(("x",), too_long(pattern, longest))
    assert check.failures({"x": "c" * longest}) == [
        SchemaFailure(("x",), f"must match the pattern {pattern}")
    ]
    assert check.accepts({"y": "b" * 1_000_000})  # a text that has no pattern


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": SLOW}},
        {"if": {"pattern": SLOW}, "then": False},
        {"oneOf": [{"type": "string"}, {"pattern": SLOW}]},
        {"anyOf": [{"pattern": SLOW}, {"type": "string"}]},
    ],
)
def test_a_text_of_which_nothing_is_known_is_not_accepted_by_a_condition(schema: dict[str, Any]) -> None:
    check = compile_schema(schema)
    assert not check.accepts(HOSTILE)
    assert NO_PATH in check.failures(HOSTILE)


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {SLOW: {"type": "integer"}}},
        {"patternProperties": {SLOW: {"type": "integer"}}, "additionalProperties": {}},
        {"propertyNames": {"not": {"pattern": SLOW}}},
    ],
)
def test_a_name_of_which_nothing_is_known_is_not_accepted(schema: dict[str, Any]) -> None:
    check = compile_schema({"properties": {"in": schema}})
    assert check.accepts({"in": {"c": "any"}})
    assert check.failures({"in": {HOSTILE: "any"}}) == [NO_PATH]
    assert not check.accepts({"in": {HOSTILE: "any"}})


def test_all_texts_of_a_value_together_are_bounded() -> None:
    check = compile_schema({"items": {"pattern": SLOW}})
    texts = ["a" * 99 + "b"] * 100
    assert check.accepts(texts)
    [failure] = check.failures(3 * texts, limit=1)
    assert failure.message == f"has too many or too long texts to check against the pattern {SLOW}"


@pytest.mark.parametrize(
    "schema", [{"pattern": "(?=a)" * 100_000}, {"patternProperties": {"(?=a)" * 100_000: {}}}]
)
def test_a_pattern_that_takes_long_to_compile_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="is invalid or too large: at most"):
        compile_schema({"properties": {"x": schema}})


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"properties": {"patternProperties": {"title": "(("}, "pattern": {"pattern": SLOW}}}
    assert compile_schema(schema).accepts({"patternProperties": 1, "pattern": "ab"})
