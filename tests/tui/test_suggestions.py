"""Suggestions of the server: asked for in the pauses, and only the latest count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from textual.widgets import Input

from mcpdesk.link.values import CatalogueItem, ItemKind
from mcpdesk.tui.forms import field_widgets as module
from mcpdesk.tui.forms.field_widgets import Suggestions
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.workbench import Bench, bench, link_with

WORDS = ("bullets", "bold", "prose")
LETTER = CatalogueItem(
    ItemKind.PROMPT,
    "letter",
    "Letter",
    definition={"arguments": [{"name": "style", "required": True}, {"name": "to", "required": True}]},
)


class Server:
    """Suggests words that begin with what was typed, once it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def ask(self, name: str, typed: str) -> Sequence[str]:
        self.asked.append(typed)
        await self.may_answer.wait()
        return [word for word in WORDS if word.startswith(typed)]


async def test_the_first_one_that_goes_on_is_taken() -> None:
    server, found = Server(), []
    field = Suggestions("style", server.ask, found.append)
    assert await field.get_suggestion("bo") == "bold"
    assert await field.get_suggestion("bold") is None
    assert found == [["bold"], ["bold"]]


async def test_letters_may_differ_in_case() -> None:
    async def ask(name: str, typed: str) -> Sequence[str]:
        return ["Berlin", "Bonn"]

    assert await Suggestions("city", ask, lambda _: None).get_suggestion("bo") == "Bonn"


async def test_who_types_on_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.01)
    server = Server()
    field = Suggestions("style", server.ask, lambda _: None)
    texts = await asyncio.gather(*(field.get_suggestion(text) for text in ("b", "bu", "bul")))
    assert texts == [None, None, "bullets"] and server.asked == ["bul"]


async def test_a_late_answer_to_an_older_text_is_dropped() -> None:
    server, found = Server(), []
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


async def test_suggestions_are_chosen_from_a_list() -> None:
    async with bench(link_with(LETTER)) as it:
        await it.open("letter")
        await it.pilot.press("f4")
        await it.until(lambda: "Suggestions for style" in it.shown())
        await it.pilot.press("p", "r", "enter")
        await it.until(lambda: isinstance(it.app.focused, Input) and it.app.focused.value == "prose")


class Refusing(FakeLink):
    """A link to a server without suggestions."""

    def request(self, server: str, method: str, params: dict[str, object]) -> object:
        call = super().request(server, method, params)
        if method == "completion/complete":
            call.outcome = type(call.outcome)()
            call.finish(error={"code": -32601, "message": "Method not found"})
        return call


async def test_a_server_that_refuses_is_not_asked_again() -> None:
    link = Refusing()
    link.catalogues["profiles"] = link_with(LETTER).catalogues["profiles"]
    async with bench(link) as it:
        await it.open("letter")
        await it.until(lambda: len(asked_for(it)) == 1)
        await it.pilot.press("f4")
        await it.until(lambda: "The server suggests nothing here." in toasts(it.app))
        assert len(asked_for(it)) == 1
