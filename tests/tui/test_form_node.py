from __future__ import annotations

from mcpdesk.tui.forms.form_model import ChoiceNode, FixedNode, JsonNode, ManyNode, NumberNode, TextNode
from mcpdesk.tui.forms.schema_fields import UNSET, field_for


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
