from __future__ import annotations

from mcpdesk.tui.forms.schema_fields import alternatives, constants, limits, resolve, split_null


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
    assert constants([{"const": 1, "title": "one"}, {"enum": [2, 3]}]) == [("one", 1), ("", 2), ("", 3)]
    assert constants([{"const": 1}, {"type": "string"}]) is None


def test_limits_are_short() -> None:
    assert limits({"minimum": 1, "maximum": 9}) == "1 … 9"
    assert limits({"exclusiveMinimum": 0, "multipleOf": 2}) == "> 0, multiple of 2"
    assert limits({"minItems": 1, "maxItems": 3}) == "1 to 3 items"
    assert limits({"format": "date"}) == ""
