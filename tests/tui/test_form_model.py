"""What a form holds, and the value that results."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.tui.forms.form_model import (
    ChoiceNode,
    FixedNode,
    JsonNode,
    ListNode,
    ManyNode,
    MapNode,
    Node,
    NumberNode,
    ObjectNode,
    TextNode,
    UnionNode,
    clear_secrets,
    form_node,
    walk,
)
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind, field_for, form_for
from mcpdesk.tui.render.json_text import keeps
from tests.support.fake_link import ORDER_SCHEMA, PROFILE_SCHEMA


def obj(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def form(required: tuple[str, ...] = (), **properties: Any) -> ObjectNode:
    node = form_node(obj(required, **properties))
    assert isinstance(node, ObjectNode)
    return node


def only(schema: dict[str, Any], required: bool = False) -> Node:
    return form(("x",) if required else (), x=schema).members["x"]


KINDS: list[tuple[dict[str, Any], FieldKind]] = [
    ({"type": "string"}, FieldKind.TEXT),
    ({"type": "string", "maxLength": 5000}, FieldKind.LONG_TEXT),
    ({"type": "string", "format": "password"}, FieldKind.SECRET),
    ({"type": "string", "writeOnly": True}, FieldKind.SECRET),
    ({"type": "string", "format": "date"}, FieldKind.MOMENT),
    ({"type": "integer"}, FieldKind.INTEGER),
    ({"type": ["number", "null"]}, FieldKind.NUMBER),
    ({"type": "boolean"}, FieldKind.SWITCH),
    ({"enum": ["a", 1, None]}, FieldKind.CHOICE),
    ({"anyOf": [{"const": 1, "title": "one"}, {"const": 2}]}, FieldKind.CHOICE),
    ({"const": 5}, FieldKind.CHOICE),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, FieldKind.MANY),
    ({"type": "array", "items": {"type": "string"}}, FieldKind.LIST),
    ({"type": "array"}, FieldKind.JSON),
    ({"type": "array", "prefixItems": [{"type": "string"}]}, FieldKind.JSON),
    ({"type": "object"}, FieldKind.JSON),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, FieldKind.MAP),
    ({"type": "object", "properties": {"a": {}}}, FieldKind.OBJECT),
    ({"type": ["string", "integer"]}, FieldKind.UNION),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, FieldKind.TEXT),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, FieldKind.UNION),
    ({}, FieldKind.JSON),
    ({"not": {"type": "string"}}, FieldKind.JSON),
    ({"$ref": "#/$defs/nowhere"}, FieldKind.JSON),
    ({"$ref": "https://example.org/schema"}, FieldKind.JSON),
]


@pytest.mark.parametrize(("schema", "kind"), KINDS)
def test_every_schema_gets_a_control(schema: dict[str, Any], kind: FieldKind) -> None:
    assert only(schema).field.kind is kind


def test_optional_fields_without_a_value_are_left_out() -> None:
    node = form(("b",), a={"type": "string"}, b={"type": "string"}, c={"type": "boolean"})
    assert node.value() == {}


def test_a_required_text_may_be_empty_once_it_was_edited() -> None:
    node = only({"type": "string"}, required=True)
    assert isinstance(node, TextNode)
    node.edit("x")
    node.edit("")
    assert node.value() == ""


def test_defaults_are_prefilled_at_every_depth() -> None:
    node = form(
        a={"type": "integer", "default": 3},
        b={"type": "object", "properties": {"c": {"type": "string"}}, "default": {"c": "x"}},
        d={"type": "array", "items": {"type": "string"}, "default": ["y"]},
        e={"enum": ["p", "q"], "default": "q"},
        f={"type": "boolean", "default": False},
    )
    assert node.value() == {"a": 3, "b": {"c": "x"}, "d": ["y"], "e": "q", "f": False}


def test_numbers_are_read_and_other_text_is_passed_on_for_the_validator() -> None:
    node = only({"type": "number"})
    assert isinstance(node, TextNode)
    for text, value in (
        ("12", 12),
        (" 1.5 ", 1.5),
        ("1e3", 1000.0),
        ("abc", "abc"),
        ("inf", "inf"),
        ("", UNSET),
    ):
        node.edit(text)
        assert node.value() == value


def test_choices_keep_booleans_and_numbers_apart() -> None:
    node = only({"enum": [1, True, "1"]})
    node.put(True)
    assert node.value() is True
    node.put("1")
    assert node.value() == "1"


def test_a_nullable_choice_offers_null() -> None:
    node = only({"enum": ["a", None]})
    assert isinstance(node, ChoiceNode)
    assert [choice.label for choice in node.choices] == ["a", "null"]
    node.pick(1)
    assert node.value() is None


def test_nullable_text_can_be_null() -> None:
    node = only({"type": ["string", "null"]})
    node.put(None)
    assert node.value() is None
    node.put("x")
    assert node.value() == "x"


def test_several_choices_come_in_the_order_of_the_schema() -> None:
    node = only({"type": "array", "items": {"enum": ["a", "b", "c"]}})
    assert isinstance(node, ManyNode)
    node.pick(frozenset({2, 0}))
    assert node.value() == ["a", "c"]


def test_lists_add_remove_and_reorder() -> None:
    node = only({"type": "array", "items": {"type": "string"}})
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


def test_maps_hold_named_values() -> None:
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
    assert payment.at == 1
    assert payment.value() == {"kind": "invoice", "days": 3}
    payment.pick(0)
    assert payment.value() == {"kind": "card"}
    payment.pick(1)
    assert payment.value() == {"kind": "invoice", "days": 3}


def test_recursive_schemas_unfold_only_as_far_as_somebody_looks() -> None:
    tree = obj(name={"type": "string"}, kids={"type": "array", "items": {"$ref": "#"}})
    node = form_node(tree)
    value = {"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}
    node.put(value)
    assert node.value() == value


def test_an_endless_required_recursion_ends_in_json_text() -> None:
    node = form_node({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]})
    assert max(len(path) for path, _ in walk(node)) == 12
    assert any(isinstance(inner, JsonNode) for _, inner in walk(node))


def test_references_to_themselves_end() -> None:
    schema = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        **obj(x={"$ref": "#/$defs/a"}),
    }
    node = form_node(schema)
    assert isinstance(node, ObjectNode)
    assert node.members["x"].field.kind is FieldKind.JSON


def test_all_of_is_merged() -> None:
    node = form_node(
        {
            "allOf": [obj(("a",), a={"type": "string"}), {"$ref": "#/$defs/b"}],
            "$defs": {"b": obj(b={"type": "integer"})},
        }
    )
    assert isinstance(node, ObjectNode)
    assert [(key, child.field.required) for key, child in node.members.items()] == [("a", True), ("b", False)]


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


def test_a_value_no_form_can_show_is_noticed() -> None:
    node = form_node(PROFILE_SCHEMA)
    for value in ([1], {"tags": "x"}, {"verbose": "maybe"}):
        node.put(value)
        assert not keeps(node.value(), value)


def test_secrets_are_left_out_of_what_is_written_down() -> None:
    secret = {"type": "string", "format": "password"}
    node = form(user={"type": "string"}, key=secret, more={"type": "array", "items": obj(token=secret, n={})})
    node.put({"user": "ada", "key": "s3cret", "more": [{"token": "t", "n": 1}]})
    clear_secrets(node)
    assert node.value() == {"user": "ada", "more": [{"n": 1}]}


def test_a_tool_without_arguments_has_an_empty_form() -> None:
    assert form_node({}).value() == {}
    assert form_node({"type": "object"}).value() == {}


def test_a_union_at_the_top_offers_its_shapes() -> None:
    schema = {**obj(base={"type": "string"}), "oneOf": [obj(a={"type": "string"}), obj(b={"type": "string"})]}
    node = form_node(schema)
    assert isinstance(node, UnionNode)
    assert [[field.key for field in part.properties()] for part in node.alternatives] == [
        ["base", "a"],
        ["base", "b"],
    ]


def test_a_union_of_requirements_only_is_left_to_the_validator() -> None:
    schema = {**obj(a={"type": "string"}, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert form_for(schema).kind is FieldKind.OBJECT


def test_clearing_brings_the_default_back() -> None:
    node = TextNode(field_for({"type": "string", "default": "x"}, {}))
    node.edit("y")
    node.clear()
    assert node.value() == "x"


def test_null_is_dropped_as_soon_as_something_is_entered() -> None:
    node = TextNode(field_for({"type": ["string", "null"]}, {}))
    node.put(None)
    node.edit("x")
    assert node.value() == "x"


def test_numbers_keep_their_kind() -> None:
    node = NumberNode(field_for({"type": "number"}, {}))
    for text, kind in (("3", int), ("3.0", float), ("1_0x", str)):
        node.edit(text)
        assert type(node.value()) is kind


def test_values_that_are_no_choice_leave_it_unset() -> None:
    node = ChoiceNode(field_for({"enum": ["a"]}, {}))
    node.put("b")
    assert node.value() is UNSET
    many = ManyNode(field_for({"type": "array", "items": {"enum": ["a", "b"]}}, {}, required=False))
    many.put(["b", "z"])
    assert many.value() == ["b"]


def test_constants_cannot_be_changed() -> None:
    node = FixedNode(field_for({"const": {"a": 1}}, {}))
    node.put(5)
    assert node.value() == {"a": 1}


def test_json_keeps_text_that_is_not_json_yet() -> None:
    node = JsonNode(field_for({}, {}))
    node.edit("[1,")
    assert (node.text, node.value()) == ("[1,", UNSET)
    assert "line 1" in node.problem
