"""Forms in the words of each revision."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.client_questions import blocks_of, check_turns, flat_schema, read_answer
from mcpdesk.protocol.revisions import V2025_06_18, V2025_11_25, V2026_07_28, Revision

TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def one(field: Any, revision: Revision = V2026_07_28, **more: Any) -> Any:
    schema = {"type": "object", "properties": {"it": field}} | more
    return flat_schema(schema, revision)["properties"]["it"]


@pytest.mark.parametrize(
    "field",
    [
        {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 2, "default": "x"},
        {"type": "string", "format": "email"},
        {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
        {"type": "number", "default": 95.5},
        {"type": "boolean", "default": True},
        {"type": "string", "enum": ["a", "b"], "default": "a"},
        {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        {"type": "string", "oneOf": TITLED},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1, "default": ["a"]},
        {"type": "array", "items": {"anyOf": TITLED}, "maxItems": 2},
    ],
)
@pytest.mark.parametrize("revision", [V2025_11_25, V2026_07_28])
def test_the_primitives_go_as_they_are(field: dict[str, Any], revision: Revision) -> None:
    assert one(field, revision) == field


def test_what_clients_do_not_know_stays_behind() -> None:
    field = {"type": "string", "format": "hostname", "default": None, "x-own": 1}
    assert one(field) == {"type": "string"}


@pytest.mark.parametrize(
    ("field", "description"),
    [
        ({"type": "string", "pattern": "^a+$"}, "Must match the pattern ^a+$."),
        ({"type": "string", "pattern": "^a+$", "description": "A code"},
         "A code. Must match the pattern ^a+$."),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1.5, "description": "Rate?"},
         "Rate? Must be more than 0. Must be less than 1.5."),
        ({"type": "integer", "multipleOf": 5}, "Must be a multiple of 5."),
        ({"type": "array", "items": {"enum": ["a"]}, "uniqueItems": True}, "Must have no item twice."),
        ({"anyOf": [{"type": "number", "multipleOf": 0.5}, {"type": "null"}]}, "Must be a multiple of 0.5."),
        ({"type": "array", "items": {"enum": ["a"]}, "uniqueItems": False}, None),
        ({"type": "number", "exclusiveMinimum": True, "pattern": "a"}, None),
        ({"type": "boolean", "pattern": "a"}, None),
    ],
)  # fmt: skip
def test_a_constraint_that_clients_do_not_know_is_in_the_description(
    field: dict[str, Any], description: str | None
) -> None:
    for revision in (V2025_06_18, V2026_07_28) if field.get("type") != "array" else (V2026_07_28,):
        sent = one(field, revision)
        assert sent.get("description") == description
        assert not sent.keys() & {
            "pattern",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "uniqueItems",
        }


@pytest.mark.parametrize(
    ("bounds", "sent"),
    [
        ({"exclusiveMinimum": 0}, {"minimum": 1}),
        ({"exclusiveMinimum": 5, "minimum": 0}, {"minimum": 6}),
        ({"exclusiveMinimum": 1.5, "exclusiveMaximum": 8.5}, {"minimum": 2, "maximum": 8}),
        ({"exclusiveMaximum": 10, "maximum": 7}, {"maximum": 7}),
    ],
)
def test_exclusive_bounds_of_integers_become_inclusive(bounds: dict[str, Any], sent: dict[str, Any]) -> None:
    assert one({"type": "integer"} | bounds) == {"type": "integer"} | sent


def test_the_first_revision_has_fewer_words() -> None:
    assert one({"type": "integer", "default": 3}, V2025_06_18) == {"type": "integer"}
    assert one({"type": "boolean", "default": True}, V2025_06_18) == {"type": "boolean", "default": True}
    titled = one({"type": "string", "oneOf": TITLED}, V2025_06_18)
    assert titled == {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}
    with pytest.raises(ValueError, match="it: revision 2025-06-18"):
        one({"type": "array", "items": {"enum": ["a"]}}, V2025_06_18)


def test_references_and_what_may_be_missing_are_put_in_place() -> None:
    colours = {"Colour": {"title": "Colour", "enum": ["red"]}}
    field = {"$ref": "#/$defs/Colour", "default": "red"}
    assert one(field, V2026_07_28, **{"$defs": colours}) == {
        "type": "string", "title": "Colour", "enum": ["red"], "default": "red",
    }  # fmt: skip
    optional = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert one(optional) == {"type": "integer"}


@pytest.mark.parametrize(
    "field",
    [{"type": "object"}, {}, 5, {"type": ["string", "null"]}, {"$ref": "#/elsewhere"}, {"enum": [1, 2]},
     {"type": "array", "items": {"type": "string"}}, {"type": "array"}],
)  # fmt: skip
def test_what_is_not_flat_names_its_field(field: Any) -> None:
    with pytest.raises(ValueError, match="it: "):
        one(field)


@pytest.mark.requirement("6.12", "12.15")
@pytest.mark.parametrize(
    "name",
    ["password", "newPassword", "api_key", "API-Key", "clientSecret", "access_token", "cvc"],
)
def test_a_form_asks_for_no_secret(name: str) -> None:
    for properties in ({name: {"type": "string"}}, {"it": {"type": "string", "title": f"Your {name}"}}):
        with pytest.raises(ValueError, match="elicit_url"):
            flat_schema({"type": "object", "properties": properties}, V2026_07_28)


@pytest.mark.parametrize("name", ["max_tokens", "secret_word", "monkey", "passenger", "keyboard", "pin"])
def test_what_only_looks_like_a_secret_is_asked_for(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}, "hasPassword": {"type": "boolean"}}}
    assert flat_schema(schema, V2026_07_28)["properties"].keys() == {name, "hasPassword"}


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": "object", "properties": []}])
def test_a_form_is_an_object(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the schema of a form"):
        flat_schema(schema, V2026_07_28)


def test_required_names_are_those_of_fields() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    assert flat_schema(schema, V2026_07_28)["required"] == ["a"]


def test_answers_hold_what_was_asked_for() -> None:
    fields = frozenset({"a"})
    full = {"action": "accept", "content": {"a": 1, "b": 2}}
    assert read_answer(full, lambda _: "", fields) == ("accept", {"a": 1})
    assert read_answer({"action": "decline", "content": {"a": 1}}, lambda _: "", fields) == (
        "decline",
        None,
    )
    assert read_answer({"action": "accept"}, None, fields) == ("accept", None)
    wrong: Any
    for wrong in (None, {}, {"action": []}, {"action": "accept", "content": []}):
        with pytest.raises(ValueError, match="answer"):
            read_answer(wrong, lambda _: "", fields)
    with pytest.raises(ValueError, match="does not fit"):
        read_answer(full, lambda _: "a is odd", fields)


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def use(identifier: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "t", "input": {}}


def result(identifier: Any) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseId": identifier, "content": []}


TEXT = {"type": "text", "text": "x"}


@pytest.mark.requirement("6.13")
@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": TEXT}],
        [said("assistant", TEXT, use("a"), use("b")), said("user", result("b"), result("a"))],
        [{"role": "assistant", "content": use(1)}, {"role": "user", "content": result(1)}],
    ],
)
def test_balanced_messages_pass(messages: list[dict[str, Any]]) -> None:
    check_turns(messages)


@pytest.mark.requirement("6.13")
@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([said("assistant", use("a"))], "message 1: no message with the results"),
        ([said("assistant", use("a")), said("user", TEXT)], "message 2: it must contain the results .* a"),
        ([said("assistant", use("a"), use("b")), said("user", result("a"))], "message 2: .*tool uses b"),
        (
            [said("assistant", use("a")), said("user", result("a"), TEXT)],
            "message 2: .* in a separate message",
        ),
        ([said("assistant", use("a")), said("assistant", result("a"))], "message 2: .* of the user"),
        ([said("user", result("a"))], "message 1: no earlier tool use has the id a"),
        ([said("user", use("a"))], "message 1: only the assistant"),
    ],
)
def test_what_is_out_of_balance_names_its_message(messages: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_turns(messages)


def test_content_is_one_block_or_several() -> None:
    assert blocks_of({"content": TEXT}) == blocks_of({"content": [TEXT]}) == [TEXT]
    assert blocks_of({}) == []
