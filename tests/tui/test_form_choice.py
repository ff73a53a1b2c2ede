from __future__ import annotations

from typing import Any

from mcpdesk.tui.forms.field_widgets import CheckList
from mcpdesk.tui.forms.form import Form
from tests.support.widgets import form_of


def value(form: Form) -> Any:
    assert form.node is not None
    return form.node.value()


async def test_a_switch_goes_on_off_and_unset() -> None:
    async with form_of({"properties": {"on": {"type": "boolean"}}}) as (form, pilot, stage):
        assert value(form) == {}
        await pilot.press("right")
        assert value(form) == {"on": True}
        await pilot.press("right")
        assert value(form) == {"on": False}
        assert "● off" in stage.shown()
        await pilot.press("right")
        assert value(form) == {}


async def test_several_are_ticked_and_the_cursor_leaves_at_the_end() -> None:
    schema = {
        "properties": {
            "many": {"type": "array", "items": {"enum": ["a", "b", "c"]}},
            "next": {"type": "string"},
        }
    }
    async with form_of(schema) as (form, pilot, stage):
        await pilot.press("space", "down", "down", "space")
        assert value(form) == {"many": ["a", "c"]}
        assert "[x] c" in stage.shown()
        await pilot.press("down", "z")
        assert value(form) == {"many": ["a", "c"], "next": "z"}
        assert len(form.query(CheckList)) == 1


async def test_a_constant_is_shown_and_sent() -> None:
    async with form_of({"properties": {"kind": {"const": "x"}}, "required": ["kind"]}) as (form, _, stage):
        assert '"x"' in stage.shown()
        assert value(form) == {"kind": "x"}
