"""The inbox on the activity screen: rows, detail, and what can be done."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as with_changes

from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.activity import ActivityPane, InboxPanel
from mcpdesk.tui.widgets.section import Detail
from tests.support.activity import activity, detail, part, row_texts, tabs
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, toasts
from tests.support.patience import until

TEA = Page("Tea or coffee?", "", (Option("tea"), Option("coffee")))
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


def panel(pane: ActivityPane) -> InboxPanel:
    return part(pane, InboxPanel)


def rows(pane: ActivityPane) -> list[str]:
    return row_texts(panel(pane).listing)


def link_with(*questions: Question) -> FakeLink:
    link = quiet_link()
    link.asked = list(questions)
    return link


def link_with_both() -> FakeLink:
    link = quiet_link()
    link.ask(TEA)
    done = link.ask(Page("Done?", options=(Option("yes"), Option("no"))))
    link.answer(done.id, [Answer(("yes",))])
    return link


@pytest.mark.slow
async def test_a_waiting_question_is_opened_by_enter_or_a_click_and_answered() -> None:
    link = link_with_both()
    async with activity(link) as (app, pilot, pane):
        waiting, answered = rows(pane)
        assert waiting.startswith(" ? waiting") and "Tea or coffee?" in waiting
        assert answered.startswith(" ✓ answered") and answered.rstrip().endswith("ago")
        assert tabs(pane)[0] == "Inbox ?1"
        await pilot.click(panel(pane).listing, offset=(5, 0))
        await until(lambda: isinstance(app.screen, QuestionScreen), pilot)
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, QuestionScreen), pilot)
        await pilot.press("2", "enter")
        await until(lambda: app.screen is app.main, pilot)
        assert link.answers[-1][1] == (Answer(("coffee",)),)
        await until(lambda: rows(pane)[0].startswith(" ✓ answered"), pilot)


@pytest.mark.slow
async def test_the_selected_question_is_shown_in_full_and_copied() -> None:
    async with activity(link_with_both()) as (app, pilot, pane):
        assert "( ) coffee" in detail(panel(pane)) and "waiting until" in detail(panel(pane))
        await pilot.press("down")
        await until(lambda: "(•) yes" in detail(panel(pane)), pilot)
        assert "answered by desk" in detail(panel(pane))
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.focused, Detail)
        await pilot.press("escape")
        assert panel(pane).listing.has_focus
        await pilot.press("up", "y", "q")
        await until(lambda: app.screen is app.main and app.clipboard, pilot)
        assert app.clipboard.startswith("Tea or coffee?\n  ( ) tea")


@pytest.mark.slow
async def test_x_declines_what_waits_with_a_reason() -> None:
    link = link_with_both()
    async with activity(link) as (app, pilot, _):
        await pilot.press("down", "x")
        await until(lambda: "No waiting question" in "".join(toasts(app)[-1:]), pilot)
        assert app.screen is app.main
        await pilot.press("up", "x")
        await until(lambda: isinstance(app.screen, QuestionScreen), pilot)
        await pilot.press("n", "o", "enter")
        assert link.declined[-1][1] == "no"


@pytest.mark.slow
async def test_words_narrow_the_inbox() -> None:
    async with activity(link_with_both()) as (app, pilot, pane):
        await pilot.press("slash", *"coffee", "enter")
        assert len(rows(pane)) == 1 and app.focused is panel(pane).listing
        await pilot.press("escape")
        assert len(rows(pane)) == 2


@pytest.mark.slow
async def test_a_question_whose_client_has_left_is_marked() -> None:
    link = link_with_both()
    async with activity(link) as (_, pilot, pane):
        assert "has left" not in rows(pane)[0]
        link.core = replace(link.core, clients=())
        await until(lambda: "(has left) Tea or coffee?" in rows(pane)[0], pilot)
        assert "has left" not in rows(pane)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "changes", "begin", "end"),
    [
        ((100, 30), {"asked": -12}, " ? waiting", "  12 s "),
        ((100, 30), {"asked": -75}, " ? waiting", "  1 min "),
        ((100, 30), {"state": QuestionState.TIMED_OUT, "ended": -6}, " ◷ timed out", " 6 s ago "),
    ],
)
async def test_a_row_says_since_when(
    size: tuple[int, int], changes: dict[str, float], begin: str, end: str
) -> None:
    now = time.time() + 1000
    at = {key: value if key == "state" else now + value for key, value in changes.items()}
    async with activity(link_with(with_changes(ASKED, **at)), size=size) as (_, _, pane):
        panel(pane).now = now
        (row,) = rows(pane)
        assert row.startswith(begin) and row.endswith(end) and "Tea or⏎coffee? (+1)" in row


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 69, 70, 200])
async def test_a_row_fills_any_width(width: int) -> None:
    async with activity(link_with(ASKED), size=(100, 30)) as (_, _, pane):
        (row,) = row_texts(panel(pane).listing, width)
        assert len(row) == width and ("claude-code" in row) == (width >= 70)


@pytest.mark.slow
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
    approval = with_changes(
        ASKED,
        pages=(Page("May cursor call Bash?", detail="command: ls\n\x1b[2J"),),
        tool="Bash",
        kind=QuestionKind.APPROVAL,
        state=state,
        answers=() if chosen is None else (Answer((chosen,)),),
        ended=1001.0,
    )
    async with activity(link_with(approval)) as (_, _, pane):
        (row,) = rows(pane)
        assert row.startswith(f" {words} ") and "approve Bash · command: ls⏎␛[2J" in row
