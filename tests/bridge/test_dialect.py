"""Input schemas of every draft and shape become what model APIs take."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.bridge.model_schemas import APIS, DEEPEST, ModelSchema, Names
from mcpdesk.server.schemas.validation import compile_schema

ANY = partial(Names, pattern=None)
STRICT = partial(Names, pattern=APIS["anthropic"].argument_name, empty="argument")


def shaped(schema: dict[str, Any]) -> dict[str, Any]:
    made = ModelSchema(schema, ANY).schema
    jsonschema.Draft202012Validator.check_schema(made)
    compile_schema(made)
    return made


def test_plain_schema_stays_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 1, "default": "x"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert shaped(schema) == schema


def test_schema_of_nothing_is_an_object_without_arguments() -> None:
    assert shaped({}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            {"type": "number", "exclusiveMinimum": 1},
        ),
        ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"not": {}}},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (True, {}),
        ({"type": "string", "x-mcp-header": "Region", "$comment": "no"}, {"type": "string"}),
        ({"$ref": "https://example.org/s.json", "title": "T"}, {"title": "T"}),
        ({"$ref": "#/$defs/gone"}, {}),
        (
            {"type": "object", "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {
                "type": "object",
                "dependentRequired": {"a": ["b"]},
                "dependentSchemas": {"c": {"required": ["d"]}},
            },
        ),
    ],
)
def test_older_drafts_and_strange_words_are_translated(old: Any, new: Any) -> None:
    made = shaped({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"p": old}})
    assert made == {"type": "object", "properties": {"p": new}}


def test_definitions_move_and_references_follow() -> None:
    made = shaped(
        {
            "properties": {"p": {"$ref": "#/definitions/P"}},
            "definitions": {"P": {"type": "object", "properties": {"q": {"$ref": "#/definitions/P"}}}},
        }
    )
    assert made["properties"]["p"] == {"$ref": "#/$defs/P"}
    assert made["$defs"]["P"]["properties"]["q"] == {"$ref": "#/$defs/P"}
    assert "definitions" not in made


def test_reference_at_the_root_is_filled_in() -> None:
    made = shaped(
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}}
    )
    assert made["properties"] == {"x": {"type": "integer"}}
    assert made["required"] == ["x"]
    assert "$ref" not in made


def test_root_of_parts_becomes_one_object() -> None:
    made = shaped(
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
            "if": {"required": ["a"]},
            "then": {"properties": {"b": {"type": "string"}}},
            "not": {"required": ["z"]},
        }
    )
    assert made == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a"],
    }


def test_alternatives_at_the_root_become_optional_and_are_told() -> None:
    made = ModelSchema(
        {
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "x": {}}, "required": ["kind", "x"]},
                {"properties": {"kind": {"const": "b"}, "y": {}, "z": {}}, "required": ["kind", "z", "y"]},
            ]
        },
        ANY,
    )
    assert made.schema["properties"]["kind"] == {"anyOf": [{"const": "a"}, {"const": "b"}]}
    assert made.schema["required"] == ["kind"]
    assert made.hint == "Give one of: x; y and z."


def test_alternatives_of_required_arguments_only_are_told() -> None:
    made = ModelSchema(
        {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ANY
    )
    assert made.hint == "Give one of: a; b."
    assert "required" not in made.schema and "anyOf" not in made.schema


def test_arguments_with_names_an_api_refuses_are_renamed_everywhere() -> None:
    made = ModelSchema({"properties": {"filter[id]": {}, "ok.x": {}}, "required": ["filter[id]"]}, STRICT)
    assert list(made.schema["properties"]) == ["filter_id", "ok.x"]
    assert made.schema["required"] == ["filter_id"]
    assert made.names.original("filter_id") == "filter[id]"


def test_required_argument_nobody_describes_is_an_argument() -> None:
    assert shaped({"required": ["a"]})["properties"] == {"a": {}}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({"type": "strng", "description": "A word."}, {"description": "A word."}),
        ({"minimum": "low", "description": 5}, {}),
        ({"type": "object", "required": "a"}, {}),
        ({"properties": {"b": {"enum": 5}}}, {}),
    ],
)
def test_what_is_no_schema_is_left_out_and_named(said: Any, kept: Any) -> None:
    made = ModelSchema({"properties": {"bad": said, "good": {"type": "string"}}, "minProperties": "x"}, ANY)
    assert made.schema == {"type": "object", "properties": {"bad": kept, "good": {"type": "string"}}}
    assert made.faulty == ["bad", "minProperties"]


WORDS = ["type", "properties", "required", "items", "anyOf", "allOf", "oneOf", "not", "$ref", "$defs", "enum",
         "const", "definitions", "dependencies", "additionalItems", "exclusiveMinimum", "minimum", "nullable",
         "additionalProperties", "x-own", "$schema", "if", "then", "prefixItems", "description"]  # fmt: skip
LEAVES = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1.5,
        "",
        "object",
        "array",
        "string",
        "#/$defs/a",
        "#/definitions/a",
        "#",
        "a",
        "b c",
    ]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b c", "filter[id]"]), inner, max_size=3)
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(WORDS), JSON, max_size=6))
def test_anything_a_server_says_becomes_a_schema_every_api_takes(said: dict[str, Any]) -> None:
    made = ModelSchema(said, STRICT)
    jsonschema.Draft202012Validator.check_schema(made.schema)
    assert made.schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$schema"} & made.schema.keys()
    pattern = APIS["anthropic"].argument_name
    assert pattern is not None and all(pattern.fullmatch(name) for name in made.schema["properties"])
    assert set(made.schema.get("required", [])) <= made.schema["properties"].keys()


PLAIN = st.fixed_dictionaries(
    {
        "properties": st.dictionaries(
            st.sampled_from("abc"),
            st.sampled_from(
                [
                    {"type": "string"},
                    {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
                    {"$ref": "#/definitions/word"},
                    {"type": "object", "dependencies": {"x": ["y"]}},
                    True,
                ]
            ),
        )
    },
    optional={
        "required": st.lists(st.sampled_from("abc"), unique=True),
        "additionalProperties": st.booleans(),
    },
)
VALUES = st.sampled_from(["", "w", 0, 1, ["s"], ["s", "t"], [1], {}, {"x": 1}, {"x": 1, "y": 2}, None])


@given(PLAIN, st.dictionaries(st.sampled_from("abcd"), VALUES))
def test_translated_schema_means_what_the_old_one_meant(
    said: dict[str, Any], arguments: dict[str, Any]
) -> None:
    old = said | {"definitions": {"word": {"type": "string", "minLength": 1}}, "type": "object"}
    new = ModelSchema(old, ANY).schema
    # The oldest draft knows bounds that are switches, the one after it tuples and definitions.
    switched = json.loads(
        json.dumps(old).replace('"minimum": 0, "exclusiveMinimum": true', '"exclusiveMinimum": 0')
    )
    meant = jsonschema.Draft7Validator(switched).is_valid(arguments)
    accepted = jsonschema.Draft202012Validator(new).is_valid(arguments)
    # A required argument that nobody describes is one: it would be forbidden where others are.
    assert accepted == meant or (accepted and not set(said.get("required", ())) <= said["properties"].keys())


def test_schema_without_end_ends() -> None:
    everyone = {f"D{n}": {"anyOf": [{"$ref": f"#/$defs/D{m}"} for m in range(30)]} for n in range(30)}
    made = ModelSchema({"$ref": "#/$defs/D0", "$defs": everyone}, ANY)
    assert made.schema["properties"] == {}


def test_deep_schemas_and_values_are_cut() -> None:
    deep: dict[str, Any] = {"type": "string"}
    value: Any = 1
    for _ in range(900):
        deep, value = {"type": "object", "properties": {"d": deep}}, [value]
    made = shaped({"properties": {"d": deep, "e": {"default": value, "type": "array", "items": {}}}})
    assert made["properties"]["e"] == {"type": "array", "items": {}}
    levels, each = 0, made
    while "properties" in each:
        levels, each = levels + 1, each["properties"].get("d", {})
    assert 10 < levels <= DEEPEST + 1


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": [1], "required": "a", "anyOf": {}, "$defs": 5, "definitions": []},
        {"properties": {"a": 5, "b": None, "c": "x"}, "required": [1, None]},
        {"allOf": [5, None, {"allOf": "x"}], "$ref": 7},
        {"type": ["object", "null"], "enum": [{}], "const": {}},
    ],
)
def test_nonsense_becomes_an_object_all_the_same(schema: dict[str, Any]) -> None:
    assert ModelSchema(schema, ANY).schema["type"] == "object"
