"""The inbox on the activity screen: what waits, what became of the rest, and how to act on it."""

from __future__ import annotations

from dataclasses import replace

from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.tui.activity.inbox_panel import InboxPanel
from mcpdesk.tui.activity.section import Detail
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.activity import ActivityPane
from tests.support.activity import activity, detail, lesson, part, row_texts, tabs, until
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, toasts

TEA = Page("Tea or coffee?", "", (Option("tea"), Option("coffee")))


def panel(pane: ActivityPane) -> InboxPanel:
    return part(pane, InboxPanel)


def rows(pane: ActivityPane) -> list[str]:
    return row_texts(panel(pane).listing)


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
        assert tabs(pane)[0] == "Inbox ?1"


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
        assert "( ) coffee" in detail(panel(pane)) and "waiting until" in detail(panel(pane))
        await pilot.press("down")
        await until(pilot, lambda: "(•) yes" in detail(panel(pane)))
        assert "answered by desk" in detail(panel(pane))
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.focused, Detail)
        await pilot.press("escape")
        assert app.focused is panel(pane).listing


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
        assert "AskUserQuestion" in lesson(panel(pane))
        assert not panel(pane).query_one(".body").display


async def test_words_narrow_the_inbox() -> None:
    async with activity(link_with_both()) as (app, pilot, pane):
        await pilot.press("slash", *"coffee", "enter")
        assert len(rows(pane)) == 1 and app.focused is panel(pane).listing
        await pilot.press("escape")
        assert len(rows(pane)) == 2


async def test_a_question_whose_client_has_left_is_marked() -> None:
    link = link_with_both()
    async with activity(link) as (_, pilot, pane):
        assert "has left" not in rows(pane)[0]
        link.core = replace(link.core, clients=())
        await until(pilot, lambda: "(has left) Tea or coffee?" in rows(pane)[0])
        assert "has left" not in rows(pane)[1]
