from __future__ import annotations

from mcpdesk.tui.forms.schema_fields import UNSET, Kind, field_for, form_for


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
    assert field.kind is Kind.CHOICE
    assert [(choice.label, choice.value) for choice in field.choices] == [
        ("one", 1),
        ('""', ""),
        ("null", None),
    ]


def test_a_member_of_any_name_is_offered_only_where_the_schema_says_so() -> None:
    assert field_for({"properties": {"a": {}}}, {}).entry() is None
    assert field_for({"properties": {"a": {}}, "additionalProperties": False}, {}).entry() is None
    entry = field_for({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {}).entry()
    assert entry is not None
    assert entry.kind is Kind.TEXT
