"""Tools in the format of each model API: names, schemas in its dialect, and the reported changes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.bridge.model_schemas import APIS, MAX_DEPTH, ModelSchema, Names, ToolSchemas, model_api
from mcpdesk.errors import DeskUserError
from mcpdesk.server.schemas.validation import compile_schema

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GREET = {"name": "greet", "description": " Greet a person. ", "inputSchema": SCHEMA, "outputSchema": {}}


def one(api: str, **changes: Any) -> dict[str, Any]:
    (made,) = ToolSchemas([GREET | changes], APIS[api])
    return made


def test_openai_gets_functions() -> None:
    function = {"name": "greet", "description": "Greet a person.", "parameters": SCHEMA}
    assert one("openai") == {"type": "function", "function": function}


def test_anthropic_gets_tools() -> None:
    assert one("anthropic") == {"name": "greet", "description": "Greet a person.", "input_schema": SCHEMA}


def test_answer_is_a_list_for_json() -> None:
    made = ToolSchemas([GREET], APIS["openai"])
    assert json.loads(json.dumps(made)) == list(made)
    assert made.remarks == []


def test_title_stands_in_for_a_description() -> None:
    assert one("anthropic", description="", title="Greeting")["description"] == "Greeting"
    assert one("anthropic", description=None)["description"] == ""


def test_description_is_cut_at_a_word_where_the_api_has_a_limit() -> None:
    long = "word " * 300
    cut = one("openai", description=long)["function"]["description"]
    assert len(cut) <= 1024 and cut.endswith("word…")
    assert one("anthropic", description=long)["description"] == long.strip()
    assert len(one("openai", description="x" * 2000)["function"]["description"]) == 1024


def test_hint_at_groups_survives_a_long_description() -> None:
    groups = {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    told = one("openai", description="word " * 300, inputSchema=groups)["function"]["description"]
    assert len(told) <= 1024 and told.endswith("…\nGive one of: a; b.")


@pytest.mark.parametrize(
    ("description", "told"),
    [
        ("word " * 300, ["greet: the description was cut to 1019 characters"]),
        ("And so on …", []),
    ],
)
def test_cut_descriptions_are_remarked_and_no_others(description: str, told: list[str]) -> None:
    groups = {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    made = ToolSchemas([GREET | {"description": description, "inputSchema": groups}], APIS["openai"])
    assert made.remarks == told
    assert made.tools[0].description.endswith("\nGive one of: a; b.")


def test_hint_that_leaves_no_room_for_the_description_goes() -> None:
    groups = {"anyOf": [{"required": [letter * 300]} for letter in "abcd"]}
    assert one("openai", inputSchema=groups)["function"]["description"] == "Greet a person."


def test_changed_names_lead_back_and_are_remarked() -> None:
    schema = {"type": "object", "properties": {"filter[id]": {"type": "string"}}}
    made = ToolSchemas([{"name": "a.b", "inputSchema": schema}], APIS["anthropic"])
    assert made.names == {"a_b": "a.b"}
    assert made.tools[0].for_server({"filter_id": 1, "other": 2}) == {"filter[id]": 1, "other": 2}
    assert made.remarks == [
        "'a.b' is called 'a_b'",
        "a.b: the argument 'filter[id]' is called 'filter_id'",
    ]


def test_too_many_tools_are_remarked() -> None:
    made = ToolSchemas(({"name": f"t{n}", "inputSchema": {}} for n in range(129)), APIS["openai"])
    assert made.remarks == ["openai accepts at most 128 tools in a request, not 129"]


@pytest.mark.parametrize(
    ("meta", "is_shown"),
    [
        ({"ui": {"visibility": ["app"]}}, False),
        ({"ui": {"visibility": ["model", "app"]}}, True),
        ({"ui": {"resourceUri": "ui://x"}}, True),
        ({"ui": {"visibility": "app"}}, True),
        ({"ui": 5}, True),
        (None, True),
    ],
)
def test_tool_for_a_user_interface_alone_is_not_told_to_models(meta: Any, is_shown: bool) -> None:
    assert len(ToolSchemas([GREET | {"_meta": meta}], APIS["openai"])) == is_shown


def test_unknown_api_is_named_with_those_there_are() -> None:
    with pytest.raises(DeskUserError, match="gemini") as caught:
        model_api("gemini")
    assert "openai, anthropic" in caught.value.hint


PATTERN = APIS["openai"].tool_name


def legal(*names: str) -> list[str]:
    made = Names(names, PATTERN)
    return [made.legal(name) for name in names]


def test_legal_names_stay_as_they_are() -> None:
    assert legal("greet", "word-count", "A_1", "x" * 64) == ["greet", "word-count", "A_1", "x" * 64]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("user.profile", "user_profile"),
        ("a/b c", "a_b_c"),
        ("größe", "gro_e"),
        ("café", "cafe"),
        ("日本", "tool"),
    ],
)
def test_other_characters_are_replaced(name: str, told: str) -> None:
    assert legal(name) == [told]


def test_names_that_would_become_one_are_kept_apart() -> None:
    first, second, third = legal("a.b", "a_b", "a/b")
    assert second == "a_b"
    assert len({first, second, third}) == 3
    assert first.startswith("a_b_") and third.startswith("a_b_")


def test_long_names_are_cut_with_a_mark_that_is_always_the_same() -> None:
    one, other = legal("x" * 70 + "1", "x" * 70 + "2")
    assert len(one) == len(other) == 64 and one != other
    assert legal("x" * 70 + "1") == [one]


@pytest.mark.slow
@given(st.lists(st.text(max_size=80), max_size=12, unique=True))
def test_every_set_of_names_is_legal_distinct_and_reversible(names: list[str]) -> None:
    made = Names(names, PATTERN)
    told = [made.legal(name) for name in names]
    assert all(PATTERN.fullmatch(each) for each in told)
    assert len(set(told)) == len(names)
    assert [made.original(each) for each in told] == names
    assert all(PATTERN.fullmatch(name) is None for name in made.changed)


@pytest.mark.slow
def test_a_server_of_very_many_odd_names_holds_nobody_up() -> None:
    names = [f"a.{number}" for number in range(50_000)]
    assert Names(names, PATTERN).legal("a.49999") == "a_49999"


def test_unknown_names_are_no_names() -> None:
    made = Names(["a"], PATTERN)
    with pytest.raises(KeyError):
        made.legal("b")
    with pytest.raises(KeyError):
        made.original("b")


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


@pytest.mark.slow
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
    # An exception: a required argument without a description would be forbidden where others are.
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
    assert 10 < levels <= MAX_DEPTH + 1


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
