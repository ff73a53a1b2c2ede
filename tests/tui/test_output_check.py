from __future__ import annotations

from mcpdesk.tui.results.result_view import MAX_MARKS, marks


def test_violations_are_found_at_their_path() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    assert marks(schema, {"a": [1, "x"]}) == {("a", 1): '"x" is not of type "integer"'}


def test_nothing_is_said_without_schema_or_value_or_with_a_broken_one() -> None:
    assert marks(None, {}) == {}
    assert marks({"type": "object"}, None) == {}
    assert marks({"type": 5}, {}) == {}
    assert marks({"$ref": "https://example.org/x"}, {}) == {}


def test_marks_are_bounded() -> None:
    assert len(marks({"items": {"type": "string"}}, list(range(1000)))) == MAX_MARKS
