"""Compiled schemas: accepted values, messages about the others, and schemas that cannot be compiled."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.server.schemas.validation import (
    SchemaError,
    SchemaFailure,
    check_bounds,
    compile_schema,
    schema_faults,
)

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
        ({"name": 5}, ("name",), "must be a string, not an integer"),
        ({"name": ""}, ("name",), "must have at least 1 character"),
        ({"name": "anna"}, ("name",), "must have at most 3 characters"),
        ({"name": "ann", "level": "mid"}, ("level",), 'must be one of: "low", "high", 3'),
        ({"name": "ann", "at": {"x": "1"}}, ("at", "x"), "must be an integer, not a string"),
        ({"name": "ann", "at": {}}, ("at", "x"), "is required"),
        ({"name": "ann", "many": [1, 0]}, ("many", 1), "must be at least 1"),
        ({"name": "ann", "many": [1, 1, 1]}, ("many",), "must have at most 2 items"),
        ({"name": "ann", "levle": "low"}, ("levle",), "is not known; did you mean level?"),
        ({"name": "ann", "at": {"x": 1, "zz": 1}}, ("at", "zz"), "is not known; allowed: x, y"),
        (
            {"name": "ann", "mixed": True},
            ("mixed",),
            "must be a string, not a boolean or must be an integer, not a boolean",
        ),
        ([], (), "must be an object, not an array"),
    ],
)
def test_failure_names_the_path_and_what_is_allowed(value: Any, path: tuple[Any, ...], message: str) -> None:
    assert only(value) == SchemaFailure(path, message)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "boolean"}, 1, "must be true or false, not an integer"),
        ({"type": ["string", "null"]}, 1.5, "must be null or a string, not a number"),
        ({"type": "array"}, {}, "must be an array, not an object"),
        ({"type": "integer"}, None, "must be an integer, not null"),
        ({"const": {"a": 1}}, 2, 'must be {"a": 1}'),
        ({"minimum": 3}, 2, "must be at least 3"),
        ({"maximum": 3}, 4, "must be at most 3"),
        ({"exclusiveMinimum": 3}, 3, "must be more than 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3"),
        ({"multipleOf": 5}, 3, "must be a multiple of 5"),
        ({"minLength": 2}, "a", "must have at least 2 characters"),
        ({"minItems": 1}, [], "must have at least 1 item"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 item"),
        ({"uniqueItems": True}, [1, 1], "must have no item twice"),
        ({"contains": {"type": "string"}}, [1], "lacks an item that it must contain"),
        ({"minProperties": 2}, {"a": 1}, "must have at least 2 members"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "must have at most 1 member"),
        ({"pattern": "^a+$"}, "b", "must match the pattern ^a+$"),
        ({"not": {"type": "string"}}, "x", "matches a schema that is not allowed"),
        ({"properties": {"a": False}}, {"a": 1}, "is not allowed here"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1},
         "has a name that is not allowed: must have at most 1 character"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "is required"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1,
         "matches more than one of the alternatives, but must match exactly one"),
        ({"unevaluatedProperties": False}, {"a": 1}, "is not known; none are allowed here"),
        ({"enum": [1, None, "x"]}, 2, 'must be one of: 1, null, "x"'),
    ],
)  # fmt: skip
def test_each_keyword_says_what_is_allowed(schema: dict[str, Any], value: Any, message: str) -> None:
    assert [each.message for each in compile_schema(schema).failures(value)] == [message]


def test_alternatives_speak_of_the_one_that_was_meant() -> None:
    assert only({"name": "ann", "maybe": {"x": 1, "y": "2"}}).path == ("maybe", "y")
    kinds = [
        {"properties": {"kind": {"const": kind}, kind: {"type": "integer"}}, "required": ["kind", kind]}
        for kind in ("circle", "square")
    ]
    assert compile_schema({"oneOf": kinds}).failures({"kind": "circle", "circle": "wide"})


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
        ({"rows": MANY, "name": 5}, ("name",), "must be a string, not an integer"),
        ({"rows": dict.fromkeys(map(str, range(9_000)))}, ("rows",), "must be an array, not an object"),
        ({"rows": [*MANY[:1_500], "x", *MANY]}, ("rows", 1_500), "must be an integer, not a string"),
        ({"rows": [*MANY, "x"]}, ("rows",), "is invalid, but not in its first 2,000 parts"),
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
        ({"type": "strin"}, 'not a valid JSON Schema at type: "strin" is not a type; the types are string, '),
        ({"pattern": "("}, "not a valid JSON Schema at pattern"),
        ({"$schema": "urn:unknown"}, "Unknown meta-schema"),
    ],
)
def test_unusable_schema_is_refused_with_a_reason(schema: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        compile_schema(schema)


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
        ({"$ref": "#/$defs/none"}, r"\$ref '#/\$defs/none' does not exist"),
        ({"$ref": "#none"}, r"\$ref '#none' does not exist"),
        ({"$ref": "#"}, "refers to itself"),
        ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, "refers to itself"),
        ({"items": {"$id": "http://example.com/x"}}, "only the schema root"),
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
    with pytest.raises(SchemaError, match="through each other"):
        check_bounds({"$ref": "#/$defs/0", "$defs": {**defs, "1000": {}}})


def test_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"properties": {}}
    schema["properties"]["again"] = schema
    with pytest.raises(SchemaError, match="levels deep"):
        check_bounds(schema)


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


def test_all_faults_of_a_schema_are_listed_and_taken_out() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "odd": {"type": "str"},
            "short": {"type": "string", "maxLength": -1},
            "fine": {"type": "integer"},
            "bound": {"type": "number", "exclusiveMinimum": True},
        },
    }
    faults, usable = schema_faults(schema)
    assert {fault.split(":")[0].rpartition("/")[2] for fault in faults} == {
        "type",
        "maxLength",
        "exclusiveMinimum",
    }
    assert usable["properties"] == {
        "odd": {},
        "short": {"type": "string"},
        "fine": {"type": "integer"},
        "bound": {"type": "number"},
    }
    assert schema["properties"]["odd"] == {"type": "str"}


@pytest.mark.parametrize("schema", [[], 5, None, {"$ref": "#/nowhere"}])
def test_a_schema_that_cannot_be_used_has_one_fault_and_no_rest(schema: Any) -> None:
    faults, usable = schema_faults(schema)
    assert len(faults) == 1 and usable == {}
