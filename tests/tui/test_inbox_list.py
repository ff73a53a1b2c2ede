"""One row a question: glyph and word, who asks, what, and since when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from mcpdesk.inbox.question import Answer, Approval, Kind, Option, Page, Question, QuestionState
from mcpdesk.tui.activity.inbox_panel import InboxList

TEA = Page("Tea or\ncoffee?", "", (Option("tea"), Option("coffee")))
ASKED = Question(1, "shop", "claude-code 2.1", "AskUserQuestion", (TEA, TEA), asked=1000.0, deadline=1600.0)


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
    ended = replace(ASKED, state=QuestionState.TIMED_OUT, ended=1006.0)
    async with shown(ended) as (listing, _, _):
        assert row(listing, 0).startswith(" ◷ timed out") and row(listing, 0).endswith(" 6 s ago ")


async def test_every_state_has_its_own_glyph() -> None:
    async with shown(*(replace(ASKED, state=state) for state in QuestionState)) as (listing, _, _):
        assert len({row(listing, at).split()[0] for at in range(listing.row_count)}) == len(QuestionState)


@pytest.mark.parametrize("width", [30, 50, 69, 70, 200])
async def test_a_row_fills_any_width(width: int) -> None:
    async with shown(ASKED, width=width) as (listing, _, _):
        assert len(row(listing, 0)) == width
        assert ("claude-code" in row(listing, 0)) == (width >= 70)


async def test_the_selection_stays_on_its_question() -> None:
    first, second = ASKED, replace(ASKED, id=2)
    async with shown(first, second) as (listing, _, pilot):
        await pilot.press("down")
        listing.show((replace(ASKED, id=3), first, second), now=1013.0)
        assert listing.selected == second


async def test_a_click_opens() -> None:
    async with shown(ASKED, replace(ASKED, id=2)) as (listing, app, pilot):
        await pilot.click(listing, offset=(5, 1))
        await pilot.pause()
        assert app.opened == [replace(ASKED, id=2)]


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
    approval = replace(
        ASKED, pages=(page,), tool="Bash", kind=Kind.APPROVAL, state=state, answers=answers, ended=1001.0
    )
    async with shown(approval) as (listing, _, _):
        text = "".join(text for text, _ in listing.spans(0, 100))
        assert text.startswith(f" {words} ")
        assert "approve Bash · command: ls⏎␛[2J" in text
