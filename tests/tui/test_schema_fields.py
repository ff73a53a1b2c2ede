"""A JSON Schema as the fields of a form: which control fits which value."""

from __future__ import annotations

from mcpdesk.protocol.catalogue.schema_shapes import Schema, alternatives, resolve, split_null
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind, constants, field_for, form_for, limits


def test_references_are_followed_and_siblings_count() -> None:
    root = {"$defs": {"a/b": {"type": "string", "title": "old"}}}
    assert resolve({"$ref": "#/$defs/a~1b", "title": "new"}, root) == {"type": "string", "title": "new"}


def test_null_is_split_off_wherever_it_stands() -> None:
    for schema in (
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"const": None}, {"type": "string"}]},
    ):
        assert split_null(schema, {}) == ({"type": "string"}, True)
    assert split_null({"enum": ["a", None]}, {}) == ({"enum": ["a"]}, True)
    assert split_null({"type": "string"}, {}) == ({"type": "string"}, False)


def test_alternatives_carry_what_the_union_says_besides() -> None:
    shape = {"type": "object", "title": "both", "oneOf": [{"title": "one"}, {"properties": {"a": {}}}]}
    first, second = alternatives(shape, {})
    assert first == {"type": "object", "title": "one"}
    assert second == {"type": "object", "properties": {"a": {}}}


def test_only_unions_of_constants_are_choices() -> None:
    assert constants([{"const": 1, "title": "one"}, {"enum": [2, 3]}]) == [("one", 1), ("2", 2), ("3", 3)]
    assert constants([{"const": 1}, {"type": "string"}]) == []


def test_limits_are_short() -> None:
    assert limits({"minimum": 1, "maximum": 9}) == "1 … 9"
    assert limits({"exclusiveMinimum": 0, "multipleOf": 2}) == "> 0, multiple of 2"
    assert limits({"minimum": 0, "exclusiveMaximum": 1}) == "≥ 0, < 1"
    assert limits({"maxLength": 60}) == "at most 60 characters"
    assert limits({"minItems": 1, "maxItems": 3}) == "1 to 3 items"
    assert limits({"format": "date"}) == ""


def test_required_members_come_first() -> None:
    schema = {"properties": {"a": {}, "b": {"type": "string"}, "c": {}}, "required": ["b"]}
    assert [field.key for field in form_for(schema).properties()] == ["b", "a", "c"]


def test_a_field_knows_default_example_and_title() -> None:
    field = field_for({"type": "integer", "default": 3, "examples": [7]}, {})
    assert (field.default, field.example, field.title) == (3, "7", "integer")
    assert field_for({"type": "string", "format": "date"}, {}).example == "2026-01-31"
    assert field_for({"type": "string"}, {}).default is UNSET


def test_choices_are_labelled_by_title_or_value() -> None:
    field = field_for({"oneOf": [{"const": 1, "title": "one"}, {"const": None}, {"const": ""}]}, {})
    assert field.kind is FieldKind.CHOICE
    assert field.choices == (("one", 1), ('""', ""), ("null", None))


def test_a_member_of_any_name_is_offered_only_where_the_schema_says_so() -> None:
    for rule, is_offered in (({}, True), (True, True), (False, False), (None, False)):
        schema: Schema = {"properties": {"a": {}}, "additionalProperties": rule}
        assert field_for(schema, {}).allows_other_members is is_offered
    entry = field_for({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {}).entry()
    assert entry.kind is FieldKind.TEXT
