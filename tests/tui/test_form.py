from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.widgets import Input, TextArea

from mcpdesk.link.values import SchemaFailure
from mcpdesk.tui.forms.field_widgets import FormPart
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.forms.form_model import form_node
from mcpdesk.tui.widgets.choice_box import Chip
from mcpdesk.tui.widgets.menu import Menu
from tests.support.fake_link import ORDER_SCHEMA, PROFILE_SCHEMA
from tests.support.lingering import Lingering
from tests.support.patience import until, within
from tests.support.widgets import form_of


def value(form: Form) -> Any:
    assert form.node is not None
    return form.node.value()


@pytest.mark.slow
async def test_every_kind_of_field_is_drawn() -> None:
    async with form_of(ORDER_SCHEMA, size=(90, 60)) as (form, _, stage):
        shown = stage.shown()
        for words in (
            "customer *",
            "at most 60 characters",
            "1 … 99",
            "● medium",
            "[ ] basil",
            "+ add",
            "+ set",
        ):
            assert words in shown
        assert value(form)["size"] == "medium"


async def test_a_form_without_fields_says_so() -> None:
    async with form_of({"type": "object", "additionalProperties": False}) as (_, _, stage):
        assert stage.shown().strip() == "No arguments."


async def test_enter_goes_on_and_submits_at_the_end() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    async with form_of(schema) as (form, pilot, stage):
        await pilot.press("x", "enter", "y", "enter")
        await until(lambda: any(isinstance(one, Form.Submitted) for one in stage.heard), pilot)
        assert value(form) == {"a": "x", "b": "y"}


async def test_up_and_down_go_through_the_fields() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    async with form_of(schema) as (form, pilot, _):
        await pilot.press("1", "down", "2", "up", "end", "3")
        assert value(form) == {"a": "13", "b": "2"}


@pytest.mark.slow
async def test_failures_stand_at_their_field() -> None:
    async with form_of(ORDER_SCHEMA, {"address": {"street": "x"}, "lines": [{}]}, (90, 60)) as (
        form,
        pilot,
        stage,
    ):
        found = [
            SchemaFailure(("address",), '"zip" is a required property'),
            SchemaFailure(("lines", 0), '"article" is a required property'),
            SchemaFailure(("quantity",), "100 is greater than the maximum of 99"),
            SchemaFailure(("extra", "deep", 3), "is wrong"),
        ]
        form.show_failures(found, show_all=True)
        await pilot.pause()
        failed = {part.label for part in form.query(FormPart) if part.has_class("-failed")}
        assert failed == {"zip", "article", "quantity", "extra"}
        assert "✗ deep[3]: is wrong" in stage.shown()
        form.focus_failure()
        await pilot.pause()
        form.show_failures([])
        assert not any(part.has_class("-failed") for part in form.query(FormPart))


async def test_only_touched_fields_complain_before_a_call() -> None:
    async with form_of(PROFILE_SCHEMA) as (form, pilot, stage):
        form.show_failures([SchemaFailure((), '"userId" is a required property')])
        await pilot.pause()
        assert "✗" not in stage.shown()
        await pilot.press("x", "backspace")
        form.show_failures([SchemaFailure(("userId",), '"" is shorter than 1 character')])
        await pilot.pause()
        assert "✗" in stage.shown()


@pytest.mark.slow
async def test_hints_are_drawn_where_all_of_them_fit_and_told_otherwise() -> None:
    async with form_of(PROFILE_SCHEMA, size=(80, 24)) as (_, _, stage):
        assert "Id as in the directory. · not empty" in stage.shown()
    async with form_of(PROFILE_SCHEMA, size=(80, 6)) as (_, pilot, stage):
        assert "Id as in the directory" not in stage.shown()
        await until(lambda: any(isinstance(one, Form.HintChanged) for one in stage.heard), pilot)


@pytest.mark.slow
async def test_a_form_that_is_longer_than_its_room_has_a_scroll_bar_and_tells_the_place() -> None:
    names = [f"field {number}" for number in range(1, 27)]
    schema = {"properties": {name: {"type": "string"} for name in names}}
    async with form_of(schema, size=(80, 24)) as (form, pilot, stage):

        def positions() -> list[str]:
            return [one.text for one in stage.heard if isinstance(one, Form.PositionChanged)]

        await until(lambda: positions()[-1:] == ["1 of 26"], pilot)
        assert form.show_vertical_scrollbar
        await pilot.press(*["down"] * 6)
        await until(lambda: positions()[-1:] == ["7 of 26"] and "field 7" in stage.shown(), pilot)
        stage.screen.set_focus(None)
        await until(lambda: positions()[-1:] == ["26 fields"], pilot)
        await pilot.resize_terminal(80, 80)
        await until(lambda: positions()[-1:] == [""] and not form.show_vertical_scrollbar, pilot)


MIXED = {
    "properties": {
        "note": {"type": "string"},
        "loud": {"type": "boolean"},
        "to": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "title": {"type": "string"},
    },
    "required": ["to", "title"],
}


@pytest.mark.slow
async def test_a_field_is_found_by_its_name_unless_text_is_typed() -> None:
    async with form_of(MIXED, size=(60, 24)) as (form, pilot, _):
        await pilot.press("slash")
        await until(lambda: value(form)["to"] == {"city": "/"}, pilot)
        await pilot.press("backspace", "tab", "tab", "tab")
        await pilot.press("slash", *"city")
        menu = pilot.app.screen
        assert isinstance(menu, Menu) and [one.label for one in menu.listing.rows] == ["to / city"]
        await pilot.press("enter", "x")
        await until(lambda: value(form)["to"] == {"city": "x"}, pilot)


async def test_descriptions_cannot_smuggle_markup_or_control_characters() -> None:
    schema = {
        "properties": {"a[/x]": {"type": "string", "description": "[red]\x1b[31m[/nope]", "default": "[b]"}}
    }
    async with form_of(schema) as (_, _, stage):
        assert "a[/x]" in stage.shown()
        assert "[red]␛[31m[/nope]" in stage.shown()


@pytest.mark.slow
async def test_long_texts_and_json_take_several_lines() -> None:
    schema = {"properties": {"body": {"type": "string"}, "any": {}}}
    async with form_of(schema) as (form, pilot, _):
        assert len(form.query(TextArea)) == 2
        await pilot.press("a", "enter", "b", "tab", "[", "1")
        assert form.problems()[0].path == ("any",)
        await pilot.press("]")
        assert form.problems() == []
        assert value(form) == {"body": "a\nb", "any": [1]}


async def test_secrets_are_not_shown() -> None:
    async with form_of({"properties": {"key": {"type": "string", "format": "password"}}}) as (
        form,
        pilot,
        stage,
    ):
        await pilot.press("s", "3")
        assert value(form) == {"key": "s3"}
        assert "s3" not in stage.shown()
        assert form.query_one(Input).password


@pytest.mark.slow
async def test_a_form_whose_loading_nobody_waits_for_any_more_is_whole_all_the_same() -> None:
    one, two = ({"properties": {name: {"type": "string"} for name in names}} for names in ("a", "bc"))
    async with form_of(one) as (form, pilot, stage):
        slow = Lingering()
        await form.mount(slow)
        given_up = asyncio.create_task(form.load(form_node(one)))
        async with within():
            await slow.leaves.wait()
        given_up.cancel()
        last = asyncio.create_task(form.load(form_node(two)))
        await asyncio.wait([given_up])
        slow.may_go.set()
        async with within():
            await last
        assert len(form.query(Input)) == 2 and not slow.is_attached
        form.focus_first()
        await pilot.press("x")
        await until(lambda: value(form) == {"b": "x"}, pilot)
        await until(lambda: "c" in stage.shown() and "a" not in stage.shown(), pilot)


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


@pytest.mark.slow
async def test_items_are_added_moved_and_removed_with_keys() -> None:
    async with form_of(TAGS) as (form, pilot, _):
        await pilot.press("ctrl+n")
        await until(lambda: len(form.query(Input)) == 1, pilot)
        await pilot.press("a", "ctrl+n")
        await until(lambda: len(form.query(Input)) == 2, pilot)
        await pilot.press("b")
        assert value(form) == {"tags": ["a", "b"]}
        await pilot.press("alt+up")
        await until(lambda: value(form) == {"tags": ["b", "a"]}, pilot)
        await until(lambda: [one.value for one in form.query(Input)] == ["b", "a"], pilot)
        await pilot.press("alt+x")
        await until(lambda: value(form) == {"tags": ["a"]}, pilot)


@pytest.mark.slow
async def test_items_are_added_and_removed_with_the_mouse() -> None:
    async with form_of(TAGS) as (form, pilot, _):
        await pilot.click(".add")
        await until(lambda: len(form.query(Input)) == 1, pilot)
        await pilot.press("x")
        await pilot.click(".remove")
        await until(lambda: value(form) == {}, pilot)


async def test_an_optional_object_is_set_and_unset_as_a_whole() -> None:
    schema = {"properties": {"place": {"type": "object", "properties": {"zip": {"type": "string"}}}}}
    async with form_of(schema) as (form, pilot, _):
        assert value(form) == {}
        await pilot.press("enter")
        await until(lambda: len(form.query(Input)) == 1, pilot)
        await pilot.press("1")
        assert value(form) == {"place": {"zip": "1"}}
        form.query_one(".present", Chip).action_press()
        await until(lambda: value(form) == {}, pilot)


@pytest.mark.slow
async def test_a_union_shows_the_shape_that_is_chosen_and_keeps_the_others() -> None:
    async with form_of(PAY) as (form, pilot, stage):
        await pilot.press("right")
        await until(lambda: "number" in stage.shown(), pilot)
        await pilot.press("tab", "4", "2")
        assert value(form) == {"pay": {"number": "42"}}
        await pilot.press("shift+tab", "right")
        await until(lambda: "coins" in stage.shown(), pilot)
        assert value(form) == {"pay": {}}
        await pilot.press("left")
        await until(lambda: value(form) == {"pay": {"number": "42"}}, pilot)


async def test_members_of_any_name_are_rows_of_name_and_value() -> None:
    schema = {"properties": {"env": {"type": "object", "additionalProperties": {"type": "integer"}}}}
    async with form_of(schema) as (form, pilot, _):
        await pilot.press("enter")
        await until(lambda: len(form.query(Input)) == 2, pilot)
        await pilot.press("n", "tab", "7")
        assert value(form) == {"env": {"n": 7}}
        await pilot.press("shift+tab", "o")
        assert value(form) == {"env": {"no": 7}}, "a name is continued, not replaced"


async def test_arguments_of_any_name_are_offered_at_the_top() -> None:
    async with form_of({"type": "object", "additionalProperties": {"type": "string"}}) as (form, pilot, _):
        await pilot.press("enter")
        await until(lambda: len(form.query(Input)) == 2, pilot)
        await pilot.press("k", "tab", "v")
        assert value(form) == {"k": "v"}
