"""A union is a choice in the form of a tool, and the shown value is sent."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.tui.forms.field_widgets import FormPart
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.widgets.choice_box import Chip
from tests.support.workbench import Bench, bench, link_with, tool

DISCRIMINATED = {
    "type": "object",
    "properties": {
        "pay": {
            "discriminator": {
                "propertyName": "kind",
                "mapping": {"card": "#/$defs/Card", "cash": "#/$defs/Cash"},
            },
            "oneOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Cash"}],
            "title": "Pay",
        }
    },
    "required": ["pay"],
    "$defs": {
        "Card": {
            "type": "object",
            "title": "Card",
            "properties": {"kind": {"const": "card", "type": "string"}, "digits": {"type": "string"}},
            "required": ["kind", "digits"],
        },
        "Cash": {
            "type": "object",
            "title": "Cash",
            "properties": {"kind": {"const": "cash", "type": "string"}, "coins": {"type": "integer"}},
            "required": ["kind", "coins"],
        },
    },
}
"""Schema by pydantic of `Annotated[Card | Cash, Field(discriminator="kind")]`."""
PLAIN = {
    **DISCRIMINATED,
    "properties": {"pay": {"anyOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Cash"}]}},
}
"""Schema by pydantic of `Card | Cash`, both dataclasses."""


@pytest.mark.slow
@pytest.mark.parametrize("schema", [DISCRIMINATED, PLAIN], ids=["discriminated", "one of dataclasses"])
async def test_the_branch_that_is_chosen_shows_its_fields_and_is_sent(schema: dict[str, Any]) -> None:
    async with bench(link_with(tool("pay", schema)), size=(100, 40)) as it:
        await it.open("pay")
        await it.until(lambda: "digits" in it.shown() and "Cash" in it.shown())
        assert "coins" not in it.shown()
        await it.pilot.press("right")
        await it.until(lambda: "coins" in it.shown() and "digits" not in it.shown())
        node = it.app.screen.query_one(Form).node
        assert node is not None
        await it.pilot.press("tab", "4", "2")
        await it.until(lambda: node.value() == {"pay": {"kind": "cash", "coins": 42}})
        await it.pilot.press("ctrl+r")
        await it.until(lambda: bool(it.sent))
        assert it.sent[0][1]["arguments"] == {"pay": {"kind": "cash", "coins": 42}}


NOTE = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
NULLABLE = {
    "type": "object",
    "properties": {
        "address": {
            "type": "object",
            "properties": {"zip": NOTE, "city": {"type": "string"}},
            "required": ["city"],
        },
        "lines": {"type": "array", "items": {"type": "object", "properties": {"note": NOTE}}},
    },
    "required": ["address", "lines"],
}


def fields(it: Bench) -> dict[str, tuple[bool, bool]]:
    """Nullable fields by name: whether the form says that null is sent, and whether null is sent."""
    form = it.app.screen.query_one(Form)
    assert form.node is not None
    sent: Any = form.node.value()
    holders = {"zip": sent.get("address", {}), "note": (sent.get("lines") or [{}])[0]}
    chips = {chip.query_ancestor(FormPart).node.field.key: chip for chip in form.query(".null").results(Chip)}
    return {
        key: (chip.has_class("-on"), holders[key].get(key, "absent") is None) for key, chip in chips.items()
    }


@pytest.mark.slow
async def test_a_nested_nullable_field_shows_what_it_sends_in_objects_and_in_items() -> None:
    async with bench(link_with(tool("order", NULLABLE)), size=(100, 40)) as it:
        await it.open("order")
        it.pane.arguments.form.query_one(".add", Chip).action_press()
        await it.until(lambda: set(fields(it)) == {"zip", "note"})
        assert all(shown == sent for shown, sent in fields(it).values()), fields(it)
        for key in ("zip", "note"):
            [chip] = [
                chip
                for chip in it.app.screen.query(".null").results(Chip)
                if chip.query_ancestor(FormPart).node.field.key == key
            ]
            before = fields(it)[key]
            chip.action_press()
            await it.until(lambda key=key, before=before: fields(it)[key] == (not before[0], not before[1]))  # type: ignore[misc]
        expected = fields(it)
        await it.pilot.press("ctrl+e")
        await it.until(lambda: it.pane.arguments.has_class("-json"))
        await it.pilot.press("ctrl+e")
        await it.until(lambda: not it.pane.arguments.has_class("-json") and fields(it) == expected)
