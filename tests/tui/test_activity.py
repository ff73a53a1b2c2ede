"""The inbox on the activity screen: what waits, what became of the rest, and how to act on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.panes import PANES
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.question_dialog import QuestionScreen
from tests.support.fake_link import FakeLink
from tests.support.frame import STUBS, quiet_link, running_frame, toasts

TEA = Page("Tea or coffee?", "", (Option("tea"), Option("coffee")))
PANES_HERE = {**STUBS, "activity": PANES["activity"]}


@asynccontextmanager
async def activity(
    link: FakeLink, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[DeskApp, Pilot[None], ActivityPane]]:
    """The activity screen of a link whose questions were put off before."""
    asked, link.asked = link.asked, []
    async with running_frame(link, size=size, panes=PANES_HERE) as (app, pilot):
        for question in asked:
            app.main.feed.put(question)
        link.asked = asked
        await pilot.press("3")
        await pilot.pause()
        pane = app.main.pane
        assert isinstance(pane, ActivityPane)
        await until(pilot, lambda: pane._version is not None)
        yield app, pilot, pane
    QuestionScreen.drafts.clear()


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await pilot.pause(0.01)


def rows(pane: ActivityPane) -> list[str]:
    width = pane.inbox.size.width
    return ["".join(text for text, _ in pane.inbox.spans(at, width)) for at in range(pane.inbox.row_count)]


def detail(pane: ActivityPane) -> str:
    return str(pane.query_one("VerticalScroll Static", Static).content)


def link_with_both() -> FakeLink:
    link = quiet_link()
    link.ask(TEA)
    done = link.ask(Page("Done?", options=(Option("yes"), Option("no"))))
    link.answer(done.id, [Answer(("yes",))])
    return link


async def test_states_are_a_glyph_and_a_word() -> None:
    async with activity(link_with_both()) as (_, _, pane):
        waiting, answered = rows(pane)
        assert (
            waiting.startswith(" ? waiting") and "claude-code 2.1" in waiting and "Tea or coffee?" in waiting
        )
        assert answered.startswith(" ✓ answered") and answered.rstrip().endswith("ago")
        assert str(pane.query_one(".count", Static).content) == "Inbox  1 waiting · 1 ended"


async def test_enter_opens_the_selected_question() -> None:
    link = link_with_both()
    async with activity(link) as (app, pilot, pane):
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        await pilot.press("2", "enter")
        await until(pilot, lambda: app.screen is app.main)
        assert link.answers[-1][1] == (Answer(("coffee",)),)
        await until(pilot, lambda: rows(pane)[0].startswith(" ✓ answered"))


async def test_the_selected_question_is_shown_in_full() -> None:
    async with activity(link_with_both()) as (app, pilot, pane):
        assert "( ) coffee" in detail(pane) and "waiting until" in detail(pane)
        await pilot.press("down")
        await until(pilot, lambda: "(•) yes" in detail(pane))
        assert "answered by desk" in detail(pane)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.focused, VerticalScroll)
        await pilot.press("escape")
        assert app.focused is pane.inbox


async def test_d_declines_with_a_reason() -> None:
    link = link_with_both()
    async with activity(link) as (app, pilot, _):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        await pilot.press("n", "o", "enter")
        assert link.declined[-1][1] == "no"


async def test_what_has_ended_cannot_be_declined() -> None:
    async with activity(link_with_both()) as (app, pilot, _):
        await pilot.press("down", "d")
        await until(pilot, lambda: "No waiting question" in "".join(toasts(app)[-1:]))
        assert app.screen is app.main


async def test_copy_offers_the_whole_and_the_end() -> None:
    async with activity(link_with_both()) as (app, pilot, _):
        await pilot.press("y", "q")
        await until(pilot, lambda: app.screen is app.main)
        assert app.clipboard.startswith("Tea or coffee?\n  ( ) tea")


async def test_an_empty_inbox_teaches() -> None:
    async with activity(quiet_link()) as (_, _, pane):
        lesson = pane.query_one(".teach", Static)
        assert lesson.display and "AskUserQuestion" in str(lesson.content)
        assert not pane.inbox.display
