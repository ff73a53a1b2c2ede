from __future__ import annotations

from textual.widgets import Input, TextArea

from tests.support.widgets import form_of


async def test_numbers_refuse_letters() -> None:
    async with form_of({"properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}) as (
        form,
        pilot,
        _,
    ):
        assert form.node is not None
        await pilot.press("a", "-", "1", ".", "2", "tab", "1", "e", "3")
        assert form.node.value() == {"n": -12, "x": 1000.0}


async def test_placeholders_tell_example_bounds_or_kind() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "format": "date"},
            "b": {"type": "integer", "minimum": 3},
            "c": {"type": "string"},
        }
    }
    async with form_of(schema) as (form, _, _):
        assert [one.placeholder for one in form.query(Input)] == ["e.g. 2026-01-31", "≥ 3", "text"]


async def test_a_value_of_several_lines_gets_several_lines() -> None:
    async with form_of({"properties": {"a": {"type": "string"}}}, {"a": "x\ny"}) as (form, _, _):
        assert form.query_one(TextArea).text == "x\ny"
