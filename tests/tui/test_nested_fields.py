from __future__ import annotations

from typing import Any

from textual.widgets import Input

from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.widgets.choice_box import Chip
from tests.support.widgets import form_of, until

TAGS = {"properties": {"tags": {"type": "array", "items": {"type": "string"}}}}
PAY = {
    "properties": {
        "pay": {
            "oneOf": [
                {"title": "Card", "properties": {"number": {"type": "string"}}},
                {"title": "Cash", "properties": {"coins": {"type": "integer"}}},
            ]
        }
    }
}


def value(form: Form) -> Any:
    assert form.node is not None
    return form.node.value()


async def test_items_are_added_moved_and_removed_with_keys() -> None:
    async with form_of(TAGS) as (form, pilot, _):
        await pilot.press("ctrl+n")
        await until(pilot, lambda: len(form.query(Input)) == 1)
        await pilot.press("a", "ctrl+n")
        await until(pilot, lambda: len(form.query(Input)) == 2)
        await pilot.press("b")
        assert value(form) == {"tags": ["a", "b"]}
        await pilot.press("alt+up")
        await until(pilot, lambda: value(form) == {"tags": ["b", "a"]})
        await until(pilot, lambda: [one.value for one in form.query(Input)] == ["b", "a"])
        await pilot.press("alt+x")
        await until(pilot, lambda: value(form) == {"tags": ["a"]})


async def test_items_are_added_and_removed_with_the_mouse() -> None:
    async with form_of(TAGS) as (form, pilot, _):
        await pilot.click(".add")
        await until(pilot, lambda: len(form.query(Input)) == 1)
        await pilot.press("x")
        await pilot.click(".remove")
        await until(pilot, lambda: value(form) == {})


async def test_an_optional_object_is_set_and_unset_as_a_whole() -> None:
    schema = {"properties": {"place": {"type": "object", "properties": {"zip": {"type": "string"}}}}}
    async with form_of(schema) as (form, pilot, _):
        assert value(form) == {}
        await pilot.press("enter")
        await until(pilot, lambda: len(form.query(Input)) == 1)
        await pilot.press("1")
        assert value(form) == {"place": {"zip": "1"}}
        form.query_one(".present", Chip).action_press()
        await until(pilot, lambda: value(form) == {})


async def test_a_union_shows_the_shape_that_is_chosen_and_keeps_the_others() -> None:
    async with form_of(PAY) as (form, pilot, stage):
        await pilot.press("right")
        await until(pilot, lambda: "number" in stage.shown())
        await pilot.press("tab", "4", "2")
        assert value(form) == {"pay": {"number": "42"}}
        await pilot.press("shift+tab", "right")
        await until(pilot, lambda: "coins" in stage.shown())
        assert value(form) == {"pay": {}}
        await pilot.press("left")
        await until(pilot, lambda: value(form) == {"pay": {"number": "42"}})


async def test_members_of_any_name_are_rows_of_name_and_value() -> None:
    schema = {"properties": {"env": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    async with form_of(schema) as (form, pilot, _):
        await pilot.press("enter")
        await until(pilot, lambda: len(form.query(Input)) == 2)
        await pilot.press("n", "tab", "7")
        assert value(form) == {"env": {"n": 7}}


async def test_arguments_of_any_name_are_offered_at_the_top() -> None:
    async with form_of({"type": "object", "additionalProperties": {"type": "string"}}) as (form, pilot, _):
        await pilot.press("enter")
        await until(pilot, lambda: len(form.query(Input)) == 2)
        await pilot.press("k", "tab", "v")
        assert value(form) == {"k": "v"}
