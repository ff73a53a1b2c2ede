"""Compiled schemas: what is accepted, what is said about the rest, and what is refused to be compiled."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.server.schemas import validation as module
from mcpdesk.server.schemas.validation import SchemaError, SchemaFailure, Validator, compile_schema

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


def only(value: Any, schema: dict[str, Any] = ARGUMENTS) -> SchemaFailure:
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
    assert only(value) == SchemaFailure(path, message)


def test_alternatives_speak_of_the_one_that_was_meant() -> None:
    assert only({"name": "ann", "maybe": {"x": 1, "y": "2"}}).path == ("maybe", "y")


def test_failures_never_repeat_the_value() -> None:
    assert "hunter2" not in repr(compile_schema(ARGUMENTS).failures({"name": "hunter2", "level": "hunter2"}))


def test_failures_are_limited() -> None:
    check = compile_schema({"items": {"type": "string"}})
    assert len(check.failures(list(range(100)), limit=7)) == 7


LARGE = {
    "type": "object",
    "properties": {
        "rows": {"type": "array", "items": {"type": "integer"}, "minItems": 3},
        "name": {"type": "string"},
    },
    "required": ["name"],
}


MANY = [0] * 9_000


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"rows": MANY}, ("name",), "is required"),
        ({"rows": MANY, "name": 5}, ("name",), "has to be a string, not an integer"),
        ({"rows": dict.fromkeys(map(str, range(9_000)))}, ("rows",), "has to be an array, not an object"),
        ({"rows": [*MANY[:1_500], "x", *MANY]}, ("rows", 1_500), "has to be an integer, not a string"),
        ({"rows": [*MANY, "x"]}, ("rows",), "does not fit; its first 2,000 parts do"),
    ],
)
def test_what_is_wrong_with_a_large_value_is_found_at_its_beginning(
    value: Any, path: tuple[Any, ...], message: str
) -> None:
    schema = LARGE if path == ("name",) else LARGE | {"required": []}
    assert only(value, schema) == SchemaFailure(path, message)


def test_a_large_value_that_fits_has_no_failures() -> None:
    many = {"anyOf": [{"properties": {"rows": {"minItems": 3_000}}}, {"required": ["other"]}]}
    assert compile_schema(many).failures({"rows": MANY}) == []
    assert compile_schema(LARGE).failures({"rows": MANY, "name": ""}) == []


def test_of_mistakes_without_end_few_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spy:
        """Counts the items the validator is given."""

        def __init__(self, real: Any) -> None:
            self.is_valid, self.items, self._real = real.is_valid, 0, real

        def iter_errors(self, value: Any) -> Any:
            self.items += len(value["rows"])
            return self._real.iter_errors(value)

    spy = Spy(compile_schema(LARGE)._compiled)
    assert len(Validator(LARGE, spy).failures({"rows": ["x"] * 1_000_000, "name": ""})) == 20  # type: ignore[arg-type]
    assert spy.items <= 100


@pytest.mark.slow
@given(
    st.fixed_dictionaries(
        {"name": st.text(max_size=4)},
        optional={
            "rows": st.lists(st.integers() | st.none(), max_size=12),
            "at": st.dictionaries(st.sampled_from("xyz"), st.integers() | st.none()),
            "maybe": st.none() | st.dictionaries(st.sampled_from("xyz"), st.integers() | st.lists(st.none())),
            "many": st.lists(st.integers(), max_size=5),
        },
    )
)
def test_a_value_of_any_size_has_failures_when_it_does_not_fit_and_only_then(value: Any) -> None:
    schema = ARGUMENTS | {"properties": ARGUMENTS["properties"] | LARGE["properties"]}
    check = compile_schema(schema)
    with pytest.MonkeyPatch.context() as patch:
        whole = set(check.failures(value))
        for most in range(1, 12):
            patch.setattr(module, "LOOKED_AT", (most, most + 3))
            found = check.failures(value)
            assert bool(found) == bool(whole) == (not check.accepts(value))
            assert set(found) <= whole or "its first" in found[0].message


def test_a_long_name_is_compared_with_no_other() -> None:
    assert only({"name": "ann", "name" * 1_000_000: 1}).message.startswith("is not known; allowed: ")


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
