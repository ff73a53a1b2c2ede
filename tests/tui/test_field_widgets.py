"""Fields of a form that hold one value: typed, chosen, suggested by the server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from textual.widgets import Input, TextArea

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.forms import field_widgets as module
from mcpdesk.tui.forms.field_widgets import CheckList, FormPart, Suggestions
from mcpdesk.tui.forms.form import Form
from tests.support.fake_link import FakeCall, FakeLink
from tests.support.frame import toasts
from tests.support.patience import until
from tests.support.widgets import form_of
from tests.support.workbench import Bench, bench, link_with


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
        await until(lambda: "✗ too [b]short" in stage.shown(), pilot)
        part.fail("")
        await until(lambda: "✗" not in stage.shown(), pilot)


async def test_required_labels_carry_a_star_and_long_ones_are_cut() -> None:
    schema = {"properties": {"a": {"type": "string"}, "x" * 40: {"type": "string"}}, "required": ["a"]}
    async with form_of(schema) as (_, _, stage):
        assert "a *" in stage.shown()
        assert "x" * 20 in stage.shown()
        assert "x" * 30 not in stage.shown()


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


WORDS = ("bullets", "bold", "prose")
LETTER = CatalogueItem(
    ItemKind.PROMPT,
    "letter",
    "Letter",
    definition={"arguments": [{"name": "style", "required": True}, {"name": "to", "required": True}]},
)


class Server:
    """Suggests words that begin with the typed text, once the test allows it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, name: str, typed: str) -> Sequence[str]:
        self.asked.append(typed)
        await self.may_answer.wait()
        return [word for word in WORDS if word.startswith(typed)]


async def test_the_first_one_that_goes_on_is_taken() -> None:
    server = Server()
    found: list[Sequence[str]] = []
    field = Suggestions("style", server.ask, found.append)
    assert await field.get_suggestion("bo") == "bold"
    assert await field.get_suggestion("bold") is None
    assert found == [["bold"], ["bold"]]


async def test_letters_may_differ_in_case() -> None:
    async def ask(name: str, typed: str) -> Sequence[str]:
        return ["Berlin", "Bonn"]

    assert await Suggestions("city", ask, lambda _: None).get_suggestion("bo") == "Bonn"


async def test_who_types_on_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TYPING_PAUSE_S", 0.01)
    server = Server()
    field = Suggestions("style", server.ask, lambda _: None)
    texts = await asyncio.gather(*(field.get_suggestion(text) for text in ("b", "bu", "bul")))
    assert texts == [None, None, "bullets"] and server.asked == ["bul"]


async def test_a_late_answer_to_an_older_text_is_dropped() -> None:
    server = Server()
    found: list[Sequence[str]] = []
    server.may_answer.clear()
    field = Suggestions("style", server.ask, found.append)
    first = asyncio.create_task(field.values("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(field.values("p"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.may_answer.set()
    assert (list(await first), list(await second)) == ([], ["prose"])
    assert found == [["prose"]]


def asked_for(it: Bench) -> list[dict[str, object]]:
    return [call.params for call in it.link.calls if call.method == "completion/complete"]


@pytest.mark.slow
async def test_a_form_shows_what_the_server_suggests_and_takes_it_by_key() -> None:
    async with bench(link_with(LETTER)) as it:
        await it.open("letter")
        await it.until(lambda: "→ takes, F4 lists: bullets · prose" in it.shown())
        await it.pilot.press("b")
        field = it.app.focused
        assert isinstance(field, Input)
        await it.until(lambda: field._suggestion == "bullets")
        assert field.value == "b"
        await it.pilot.press("right")
        assert field.value == "bullets"


@pytest.mark.slow
async def test_other_arguments_are_the_context() -> None:
    async with bench(link_with(LETTER)) as it:
        await it.open("letter")
        await it.pilot.press("x", "tab")
        wanted = {
            "ref": {"type": "ref/prompt", "name": "letter"},
            "argument": {"name": "to", "value": ""},
            "context": {"arguments": {"style": "x"}},
        }
        # What was typed before is asked about after its pause, which may be later.
        await it.until(lambda: wanted in asked_for(it))


@pytest.mark.slow
async def test_suggestions_are_chosen_from_a_list() -> None:
    async with bench(link_with(LETTER)) as it:
        await it.open("letter")
        await it.pilot.press("f4")
        await it.until(lambda: "Suggestions for style" in it.shown())
        await it.pilot.press("p", "r", "enter")
        await it.until(lambda: isinstance(it.app.focused, Input) and it.app.focused.value == "prose")


class Refusing(FakeLink):
    """A link to a server without suggestions."""

    def request(self, server: str, method: str, params: dict[str, Any]) -> FakeCall:
        call = super().request(server, method, params)
        if method == "completion/complete":
            call.outcome = type(call.outcome)()
            call.finish(error={"code": -32601, "message": "Method not found"})
        return call


@pytest.mark.slow
async def test_a_server_that_announces_no_completions_is_not_asked() -> None:
    link = link_with(LETTER)
    servers = tuple(replace(one, has_completion=False) for one in link.core.servers)
    link.core = replace(link.core, servers=servers)
    async with bench(link) as it:
        await it.open("letter")
        await it.pilot.press("x", "f4")
        await it.until(lambda: "The server has no suggestions for this field." in toasts(it.app))
        assert asked_for(it) == []


@pytest.mark.slow
async def test_a_server_that_refuses_is_not_asked_again() -> None:
    link = Refusing()
    link.catalogues["profiles"] = link_with(LETTER).catalogues["profiles"]
    async with bench(link) as it:
        await it.open("letter")
        await it.until(lambda: len(asked_for(it)) == 1)
        await it.pilot.press("f4")
        await it.until(lambda: "The server has no suggestions for this field." in toasts(it.app))
        assert len(asked_for(it)) == 1
