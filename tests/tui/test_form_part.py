from __future__ import annotations

from mcpdesk.tui.forms.field_widgets import FormPart
from tests.support.widgets import form_of, until


async def test_null_is_sent_by_its_button_and_taken_back() -> None:
    async with form_of({"properties": {"a": {"type": ["string", "null"]}}}) as (form, pilot, _):
        assert form.node is not None
        await pilot.press("tab", "enter")
        assert form.node.value() == {"a": None}
        await pilot.press("enter")
        assert form.node.value() == {}
        await pilot.press("enter", "shift+tab", "x")
        assert form.node.value() == {"a": "x"}


async def test_a_part_without_a_hint_can_still_fail() -> None:
    async with form_of({"properties": {"a": {"type": "string"}}}) as (form, pilot, stage):
        part = next(one for one in form.query(FormPart) if one.label == "a")
        part.fail("too [b]short")
        await until(pilot, lambda: "✗ too [b]short" in stage.shown())
        part.fail("")
        await until(pilot, lambda: "✗" not in stage.shown())


async def test_required_labels_carry_a_star_and_long_ones_are_cut() -> None:
    schema = {"properties": {"a": {"type": "string"}, "x" * 40: {"type": "string"}}, "required": ["a"]}
    async with form_of(schema) as (_, _, stage):
        assert "a *" in stage.shown()
        assert "x" * 20 in stage.shown()
        assert "x" * 30 not in stage.shown()
