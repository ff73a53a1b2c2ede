"""Tools as each model API wants them told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpdesk.bridge.model_schemas import APIS, ToolSchemas, model_api
from mcpdesk.errors import DeskUserError

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GREET = {"name": "greet", "description": " Greet somebody. ", "inputSchema": SCHEMA, "outputSchema": {}}


def one(api: str, **changes: Any) -> dict[str, Any]:
    (made,) = ToolSchemas([GREET | changes], APIS[api])
    return made


def test_openai_gets_functions() -> None:
    function = {"name": "greet", "description": "Greet somebody.", "parameters": SCHEMA}
    assert one("openai") == {"type": "function", "function": function}


def test_anthropic_gets_tools() -> None:
    assert one("anthropic") == {"name": "greet", "description": "Greet somebody.", "input_schema": SCHEMA}


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
    assert one("openai", inputSchema=groups)["function"]["description"] == "Greet somebody."


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
    assert made.remarks == ["openai takes at most 128 tools a request, these are 129"]


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
