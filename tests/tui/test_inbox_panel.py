"""The inbox on the activity screen: rows, detail, and what can be done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from msgspec.structs import replace as with_changes
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from mcpdesk.tui.activity.inbox_panel import InboxList, InboxPanel
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
        assert panel(pane).listing.has_focus


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


TEAS = Page("Tea or\ncoffee?", "", (Option("tea"), Option("coffee")))
ASKED = Question(
    1,
    "shop",
    "claude-code 2.1",
    "AskUserQuestion",
    (TEAS, TEAS),
    asked=1000.0,
    deadline=1600.0,
)


class Shown(App[None]):
    """The list alone; remembers what it posted."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[Question | None] = []

    def compose(self) -> ComposeResult:
        yield InboxList()

    def on_section_list_opened(self) -> None:
        self.opened.append(self.query_one(InboxList).selected)


@asynccontextmanager
async def shown(
    *questions: Question, width: int = 100
) -> AsyncIterator[tuple[InboxList, Shown, Pilot[None]]]:
    app = Shown()
    async with app.run_test(size=(width, 10)) as pilot:
        listing = app.query_one(InboxList)
        listing.focus()
        listing.show(questions, now=1012.0)
        await pilot.pause()
        yield listing, app, pilot


def row(listing: InboxList, index: int) -> str:
    return "".join(text for text, _ in listing.spans(index, listing.size.width))


async def test_a_waiting_question_says_since_when() -> None:
    async with shown(ASKED) as (listing, _, _):
        said = row(listing, 0)
        assert said.startswith(" ? waiting") and said.endswith("  12 s ")
        assert "claude-code 2.1" in said and "Tea or⏎coffee? (+1)" in said
        assert len(said) == listing.size.width


async def test_the_clock_of_a_waiting_question_goes_on() -> None:
    async with shown(ASKED) as (listing, _, _):
        listing.tick(1075.0)
        assert row(listing, 0).endswith("  1 min ")


async def test_an_ended_question_says_how_long_ago() -> None:
    ended = with_changes(ASKED, state=QuestionState.TIMED_OUT, ended=1006.0)
    async with shown(ended) as (listing, _, _):
        assert row(listing, 0).startswith(" ◷ timed out") and row(listing, 0).endswith(" 6 s ago ")


async def test_every_state_has_its_own_glyph() -> None:
    async with shown(*(with_changes(ASKED, state=state) for state in QuestionState)) as (listing, _, _):
        assert len({row(listing, at).split()[0] for at in range(listing.row_count)}) == len(QuestionState)


@pytest.mark.parametrize("width", [30, 50, 69, 70, 200])
async def test_a_row_fills_any_width(width: int) -> None:
    async with shown(ASKED, width=width) as (listing, _, _):
        assert len(row(listing, 0)) == width
        assert ("claude-code" in row(listing, 0)) == (width >= 70)


async def test_the_selection_stays_on_its_question() -> None:
    first, second = ASKED, with_changes(ASKED, id=2)
    async with shown(first, second) as (listing, _, pilot):
        await pilot.press("down")
        listing.show((with_changes(ASKED, id=3), first, second), now=1013.0)
        assert listing.selected == second


async def test_a_click_opens() -> None:
    async with shown(ASKED, with_changes(ASKED, id=2)) as (listing, app, pilot):
        await pilot.click(listing, offset=(5, 1))
        await pilot.pause()
        assert app.opened == [with_changes(ASKED, id=2)]


@pytest.mark.parametrize(
    ("state", "chosen", "words"),
    [
        (QuestionState.WAITING, None, "? waiting"),
        (QuestionState.ANSWERED, Approval.ONCE, "✓ allowed"),
        (QuestionState.ANSWERED, Approval.DENY, "✕ denied"),
        (QuestionState.DECLINED, None, "✕ denied"),
        (QuestionState.WITHDRAWN, None, "↶ withdrawn"),
    ],
)
async def test_approvals_are_shown_as_such(state: QuestionState, chosen: Approval | None, words: str) -> None:
    page = Page("May cursor call Bash?", detail="command: ls\n\x1b[2J")
    answers = () if chosen is None else (Answer((chosen,)),)
    approval = with_changes(
        ASKED,
        pages=(page,),
        tool="Bash",
        kind=QuestionKind.APPROVAL,
        state=state,
        answers=answers,
        ended=1001.0,
    )
    async with shown(approval) as (listing, _, _):
        text = "".join(text for text, _ in listing.spans(0, 100))
        assert text.startswith(f" {words} ")
        assert "approve Bash · command: ls⏎␛[2J" in text
