"""Model of a form, and the value that results."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.tui.forms.form_model import (
    JsonNode,
    ListNode,
    MapNode,
    Node,
    ObjectNode,
    TextNode,
    UnionNode,
    clear_secrets,
    form_node,
    walk,
)
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind, form_for
from mcpdesk.tui.render.json_text import contains_all
from tests.support.fake_link import ORDER_SCHEMA, PROFILE_SCHEMA

TEXT = {"type": "string"}
LETTERS = {"type": "array", "items": {"enum": ["a", "b", "c"]}}
SECRET = {"type": "string", "format": "password"}


def obj(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def form(required: tuple[str, ...] = (), **properties: Any) -> ObjectNode:
    node = form_node(obj(required, **properties))
    assert isinstance(node, ObjectNode)
    return node


def only(schema: dict[str, Any], required: bool = False) -> Node:
    return form(("x",) if required else (), x=schema).members["x"]


KINDS: list[tuple[dict[str, Any], FieldKind]] = [
    (TEXT, FieldKind.TEXT),
    ({"type": "string", "maxLength": 5000}, FieldKind.LONG_TEXT),
    (SECRET, FieldKind.SECRET),
    ({"type": "string", "writeOnly": True}, FieldKind.SECRET),
    ({"type": "string", "format": "date"}, FieldKind.MOMENT),
    ({"type": "integer"}, FieldKind.INTEGER),
    ({"type": ["number", "null"]}, FieldKind.NUMBER),
    ({"type": "boolean"}, FieldKind.SWITCH),
    ({"enum": ["a", 1, None]}, FieldKind.CHOICE),
    ({"anyOf": [{"const": 1, "title": "one"}, {"const": 2}]}, FieldKind.CHOICE),
    ({"const": 5}, FieldKind.CHOICE),
    (LETTERS, FieldKind.MULTI_CHOICE),
    ({"type": "array", "items": TEXT}, FieldKind.LIST),
    ({"type": "array"}, FieldKind.JSON),
    ({"type": "array", "prefixItems": [TEXT]}, FieldKind.JSON),
    ({"type": "object"}, FieldKind.JSON),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, FieldKind.MAP),
    ({"type": "object", "properties": {"a": {}}}, FieldKind.OBJECT),
    ({"type": ["string", "integer"]}, FieldKind.UNION),
    ({"anyOf": [TEXT, {"type": "null"}]}, FieldKind.TEXT),
    ({"oneOf": [TEXT, {"type": "integer"}, {"type": "null"}]}, FieldKind.UNION),
    ({}, FieldKind.JSON),
    ({"not": TEXT}, FieldKind.JSON),
    ({"$ref": "#/$defs/nowhere"}, FieldKind.JSON),
    ({"$ref": "https://example.org/schema"}, FieldKind.JSON),
]


@pytest.mark.parametrize(("schema", "kind"), KINDS)
def test_every_schema_gets_a_control(schema: dict[str, Any], kind: FieldKind) -> None:
    assert only(schema).field.kind is kind


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        ({"enum": [1, True, "1"]}, True, True),
        ({"enum": [1, True, "1"]}, "1", "1"),
        ({"enum": ["a", None]}, None, None),
        ({"enum": ["a"]}, "b", UNSET),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["string", "null"]}, "x", "x"),
        (LETTERS, ["c", "a"], ["a", "c"]),
        (LETTERS, ["b", "z"], ["b"]),
        ({}, {"a": [1]}, {"a": [1]}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"n": 3}, {"n": 3}),
    ],
)
def test_a_value_is_held_as_far_as_it_fits(schema: dict[str, Any], given: Any, value: Any) -> None:
    node = only(schema)
    node.put(given)
    assert node.value() is value or node.value() == value


def test_optional_fields_without_a_value_are_left_out() -> None:
    assert form(("b",), a=TEXT, b=TEXT, c={"type": "boolean"}).value() == {}
    assert form_node({}).value() == {} == form_node({"type": "object"}).value()


def test_a_required_text_may_be_empty_once_it_was_edited() -> None:
    node = only(TEXT, required=True)
    assert isinstance(node, TextNode)
    node.edit("x")
    node.edit("")
    assert node.value() == ""


def test_defaults_are_prefilled_at_every_depth_and_come_back() -> None:
    node = form(
        a={"type": "integer", "default": 3},
        b={"type": "object", "properties": {"c": TEXT}, "default": {"c": "x"}},
        d={"type": "array", "items": TEXT, "default": ["y"]},
        e={"enum": ["p", "q"], "default": "q"},
        f={"type": "boolean", "default": False},
    )
    defaults = {"a": 3, "b": {"c": "x"}, "d": ["y"], "e": "q", "f": False}
    assert node.value() == defaults
    node.put({"a": 5})
    assert node.value() == {"a": 5}
    node.reset()
    assert node.value() == defaults


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), (" 1.5 ", 1.5), ("3.0", 3.0), ("1e3", 1000.0), ("abc", "abc"), ("inf", "inf"), ("", UNSET)],
)
def test_numbers_are_read_and_other_text_is_passed_on_for_the_validator(text: str, value: Any) -> None:
    node = only({"type": "number"})
    assert isinstance(node, TextNode)
    node.edit(text)
    assert node.value() == value and type(node.value()) is type(value)


def test_null_is_dropped_as_soon_as_something_is_entered() -> None:
    node = only({"type": ["string", "null"]})
    assert isinstance(node, TextNode)
    node.put(None)
    node.edit("x")
    assert node.value() == "x"


def test_lists_add_remove_and_reorder() -> None:
    node = only({"type": "array", "items": TEXT})
    assert isinstance(node, ListNode)
    assert node.value() is UNSET
    for text in ("a", "b", "c"):
        node.add().put(text)
    assert node.move(2, -1) == 1
    node.remove(0)
    assert node.value() == ["c", "b"]
    node.remove(0)
    node.remove(0)
    assert node.value() is UNSET


def test_a_required_list_starts_with_the_items_it_needs() -> None:
    node = only({"type": "array", "minItems": 2, "items": {"type": "integer", "default": 7}}, required=True)
    assert node.value() == [7, 7]


def test_members_without_a_name_are_left_out() -> None:
    node = only({"type": "object", "additionalProperties": {"type": "integer"}})
    assert isinstance(node, MapNode)
    node.add("n").put(3)
    node.add().put(4)
    assert node.value() == {"n": 3}


def test_a_union_takes_the_shape_a_value_fits() -> None:
    node = form_node(ORDER_SCHEMA)
    node.put({"customer": "Ada", "quantity": 1, "lines": [], "payment": {"kind": "invoice", "days": 3}})
    payment = dict(node.children())["payment"]
    assert isinstance(payment, UnionNode)
    for at, value in ((1, {"kind": "invoice", "days": 3}), (0, {"kind": "card"})) * 2:
        payment.pick(at)
        assert payment.value() == value


def test_recursive_schemas_unfold_only_as_far_as_somebody_looks() -> None:
    node = form_node(obj(name=TEXT, kids={"type": "array", "items": {"$ref": "#"}}))
    value = {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}
    node.put(value)
    assert node.value() == value
    endless = form_node(obj(("next",), next={"$ref": "#"}))
    assert max(len(path) for path, _ in walk(endless)) == 12
    assert any(isinstance(inner, JsonNode) for _, inner in walk(endless))
    mutual = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    (field,) = form_for({"$defs": mutual, **obj(x={"$ref": "#/$defs/a"})}).properties()
    assert field.kind is FieldKind.JSON


def test_all_of_is_merged() -> None:
    parts = [obj(("a",), a=TEXT), {"$ref": "#/$defs/b"}]
    fields = form_for({"allOf": parts, "$defs": {"b": obj(b={"type": "integer"})}}).properties()
    assert [(field.key, field.required) for field in fields] == [("a", True), ("b", False)]


def test_members_without_a_field_survive_the_way_through_the_form() -> None:
    node = form_node(PROFILE_SCHEMA)
    value = {"userId": "1", "verbose": True, "surplus": {"deep": [1]}}
    node.put(value)
    assert node.value() == value


def test_json_text_tells_where_it_breaks() -> None:
    node = only({})
    assert isinstance(node, JsonNode)
    node.edit('{"a":\n 1,}')
    assert node.problem.startswith("line 2, column 4")
    assert node.value() is UNSET
    node.edit("[1]")
    assert (node.problem, node.value()) == ("", [1])


@pytest.mark.parametrize("value", [[1], {"tags": "x"}, {"verbose": "maybe"}])
def test_a_value_no_form_can_show_is_noticed(value: Any) -> None:
    node = form_node(PROFILE_SCHEMA)
    node.put(value)
    assert not contains_all(node.value(), value)


def test_secrets_are_left_out_of_what_is_written_down() -> None:
    more = {"type": "array", "items": obj(token=SECRET, n={})}
    node = form(user=TEXT, key=SECRET, more=more, pin={"anyOf": [SECRET, {"type": "integer"}]})
    node.put({"user": "ada", "key": "s3cret", "more": [{"token": "t", "n": 1}], "pin": "secret"})
    clear_secrets(node)
    assert node.value() == {"user": "ada", "more": [{"n": 1}]}


def test_a_union_at_the_top_offers_its_shapes() -> None:
    field = form_for({**obj(base=TEXT), "oneOf": [obj(a=TEXT), obj(b=TEXT)]})
    shapes = [[member.key for member in part.properties()] for part in field.alternatives()]
    assert shapes == [["base", "a"], ["base", "b"]]


def test_a_union_of_requirements_only_is_left_to_the_validator() -> None:
    schema = {**obj(a=TEXT, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert form_for(schema).kind is FieldKind.OBJECT


NESTED = {
    "type": "object",
    "properties": {
        "address": {
            "type": "object",
            "required": ["street"],
            "properties": {
                "street": {"type": "string"},
                "zip": {"type": ["string", "null"], "default": None},
            },
        },
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
            },
        },
    },
    "required": ["address", "items"],
}


def test_a_nullable_member_whose_default_is_null_is_empty_and_not_sent() -> None:
    form = form_node(NESTED)
    at = dict(walk(form))
    assert not at["address", "zip"].is_null
    items = at["items",]
    assert isinstance(items, ListNode)
    item = items.add()
    assert form.value() == {"address": {}, "items": [{}]}
    note = dict(walk(item))["note",]
    note.put(None)
    assert note.is_null and form.value() == {"address": {}, "items": [{"note": None}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "default": None},
        {"type": "integer", "default": "five"},
        {"type": "integer", "maximum": 3, "default": 5},
        {"enum": ["a", "b"], "default": "c"},
        {"type": "array", "items": {"type": "string"}, "default": None},
        {"type": "boolean", "default": "yes"},
    ],
)
def test_a_default_that_breaks_its_own_schema_is_left_unset(schema: dict[str, object]) -> None:
    form = form_node({"type": "object", "properties": {"it": schema}})
    assert form.value() == {}
    assert dict(walk(form))["it",].field.invalid_default == schema["default"]


def test_members_of_a_branch_are_offered() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "then": {"properties": {"x": {"type": "integer"}}},
    }
    assert [field.key for field in form_for(schema).properties()] == ["kind", "x"]


@pytest.mark.parametrize(
    "odd",
    [
        {"properties": [{"name": "x"}]},
        {"properties": {"x": {"type": "string"}}, "required": None},
        {"properties": {"x": {"type": "string"}}, "required": [["x"]]},
        {"type": "string", "examples": {"a": 1}},
        {"type": "string", "maxLength": "9"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1.5},
    ],
)
def test_keywords_with_a_value_of_a_wrong_type_are_ignored(odd: dict[str, Any]) -> None:
    for schema in ({"type": "object", **odd}, {"properties": {"p": odd}, "required": ["p"]}):
        for _, node in walk(form_node(schema)):
            assert isinstance(node.field.example, str)
            node.value()
