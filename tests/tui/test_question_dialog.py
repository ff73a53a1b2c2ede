"""The dialog of a question: pages, answers, keys, and questions that end at another place."""

from __future__ import annotations

from concurrent.futures import Future
from unittest.mock import patch

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from mcpdesk.inbox.answers import problem as answers_problem
from mcpdesk.inbox.question import Answer, Approval, Option, Page, Question, QuestionKind, QuestionState
from mcpdesk.tui.forms import question_dialog, question_page
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.forms.question_dialog import question_keys
from mcpdesk.tui.forms.question_page import AnswerLine, OptionRow
from mcpdesk.tui.terminal import KeyPause
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.part_line import PartLine
from tests.support.asking import APPROVAL, CHECKS, DATABASE, asked
from tests.support.frame import toasts

LINK = Page("Sign in", "link", own_words=False, is_required=False, link="https://example.org/in")
FORM = (
    Page("Where to?", "Name", default=Answer(other="Ada")),
    Page(
        "Where to?", "Size", (Option("small"), Option("large")), own_words=False, default=Answer(("large",))
    ),
    Page("Where to?", "Age", is_required=False, rules={"type": "integer", "maximum": 99}),
)


@pytest.mark.slow
async def test_a_digit_and_enter_answer_a_single_page() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("2")
        assert desk.marks == "( )(•)( )"
        await desk.press("enter")
        assert desk.link.answers == [(desk.question.id, (Answer(("SQLite",)),))]
        await desk.until(lambda: not desk.is_open)
        await desk.until(lambda: toasts(desk.app)[-1:] == ["Answered. claude-code 2.1 continues."])


@pytest.mark.slow
async def test_several_pages_are_answered_as_one_and_can_be_gone_back_to() -> None:
    async with asked(DATABASE, CHECKS) as desk:
        await desk.press("1", "enter")
        assert desk.link.answers == []
        await desk.press("1", "3", "backspace")
        assert desk.marks == "(•)( )( )"
        await desk.press("2", "enter")
        assert desk.marks == "[x][ ][x][ ]"
        await desk.press("1", "enter")
        assert desk.link.answers[0][1] == (Answer(("SQLite",)), Answer(("tests",)))


@pytest.mark.slow
async def test_keys_typed_faster_than_pages_turn_are_not_lost() -> None:
    async with asked(DATABASE, CHECKS, DATABASE) as desk:
        await desk.press("1", "enter", "2", "3", "enter", "2", "enter")
        answers = (Answer(("PostgreSQL",)), Answer(("types", "tests")), Answer(("SQLite",)))
        assert desk.link.answers == [(desk.question.id, answers)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_news_lie_over_their_row_while_a_question_is_open_too(size: tuple[int, int]) -> None:
    async with asked(DATABASE, size=size) as desk:
        desk.app.notify("Something happened.")
        await desk.until(lambda: bool(desk.dialog.query("Toast")))
        await desk.until(lambda: desk.dialog.query_one("Toast").region.y == desk.app.main.news.region.y)
        assert "Something happened." in desk.shown()


@pytest.mark.slow
async def test_the_title_counts_pages_before_the_first_layout() -> None:
    with patch.object(question_dialog, "UPDATE_INTERVAL_S", 3600):
        async with asked(DATABASE, CHECKS) as desk:
            title = desk.dialog.query_one("Vertical").border_title
            assert title is not None and "claude-code 2.1 asks · waiting" in title and "1 of 2" in title


@pytest.mark.slow
async def test_the_title_follows_the_width_of_the_terminal() -> None:
    with patch.object(question_dialog, "UPDATE_INTERVAL_S", 3600):
        async with asked(DATABASE, CHECKS, size=(120, 40)) as desk:
            box = desk.dialog.query_one("Vertical")

            def title() -> str:
                return Content.from_markup(box.border_title or "").plain

            assert title().endswith("1 of 2") and cell_len(title()) == 82
            await desk.pilot.resize_terminal(72, 24)
            await desk.until(lambda: title().endswith("1 of 2") and cell_len(title()) == 66)


@pytest.mark.slow
async def test_escape_leaves_own_words_before_it_leaves_the_dialog() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("3", "x", "escape")
        assert desk.is_open and desk.marks == "( )( )(•)"
        await desk.press("escape")
        assert not desk.is_open and desk.link.answers == []


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "label"), [(("down",), "PostgreSQL"), (("down", "down"), "SQLite")])
async def test_enter_chooses_what_is_highlighted_and_a_second_one_answers(
    keys: tuple[str, ...], label: str
) -> None:
    async with asked(DATABASE) as desk:
        assert "enter answer" in desk.shown()
        await desk.press(*keys)
        assert "enter choose" in desk.shown() and desk.marks == "( )( )( )"
        await desk.press("enter")
        assert desk.link.answers == [] and "(•)" in desk.marks and "enter answer" in desk.shown()
        await desk.press("enter")
        assert desk.link.answers == [(desk.question.id, (Answer((label,)),))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", QuestionKind)
async def test_nothing_is_highlighted_or_chosen_before_a_key_does_it(kind: QuestionKind) -> None:
    async with asked(replace(DATABASE, own_words=False), kind=kind) as desk:
        assert not desk.dialog.query(".-cursor")
        await desk.press("enter", "enter")
        assert desk.link.answers == [] and "Choose at least one option" in desk.shown()
        await desk.press("space")
        assert desk.dialog.query(".-cursor") and desk.marks == "( )( )"
        await desk.press("space", "space")
        assert not desk.dialog.query(".-cursor") and desk.marks == "( )( )"
        await desk.press("enter")
        assert desk.link.answers == []


@pytest.mark.slow
async def test_a_page_opens_on_what_is_chosen_and_enter_takes_what_is_highlighted() -> None:
    yes_or_no = Page("Sure?", "", (Option("yes"), Option("no")), own_words=False, default=Answer(("no",)))
    async with asked(FORM[0], yes_or_no) as desk:
        await desk.press("enter")
        (row,) = desk.dialog.query(".-cursor").results(OptionRow)
        assert row.index == 1 and desk.marks == "( )(•)" and "enter answer" in desk.shown()
        await desk.press("up", "enter")
        assert desk.marks == "(•)( )" and desk.link.answers == []
        await desk.press("enter")
        assert desk.link.answers[0][1] == (Answer(other="Ada"), Answer(("yes",)))


@pytest.mark.slow
async def test_what_need_not_be_chosen_is_passed_over_by_enter() -> None:
    async with asked(replace(FORM[1], is_required=False, default=Answer())) as desk:
        await desk.press("down", "enter", "space", "enter")
        assert desk.link.answers[0][1] == (Answer(),)


@pytest.mark.slow
async def test_enter_on_an_empty_field_takes_no_option() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("3", "enter")
        assert desk.link.answers == [] and "Choose at least one option" in desk.shown()
        await desk.press("escape", "1", "3", "enter")
        assert desk.link.answers == [] and "Your answer is empty" in desk.shown()
        await desk.press("escape", "enter")
        assert desk.marks == "( )(•)( )" and desk.link.answers == []


@pytest.mark.slow
async def test_what_is_written_stays_the_answer_when_the_field_is_left() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("3", "x", "escape", "enter")
        assert desk.link.answers[0][1] == (Answer(other="x"),)


@pytest.mark.slow
async def test_enter_without_a_choice_says_what_is_missing() -> None:
    async with asked(CHECKS) as desk:
        await desk.press("enter")
        assert desk.link.answers == []
        note = desk.dialog.query_one(".note", Static)
        assert note.display and str(note.content) == "Choose at least one option or write something."
        await desk.press("1")
        assert not note.display


@pytest.mark.slow
async def test_declining_asks_for_a_reason_first() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("x")
        assert desk.link.declined == []
        assert "enter decline   esc back" in desk.shown() and "digits choose" not in desk.shown()
        await desk.press("escape")
        assert desk.is_open and desk.link.declined == []
        await desk.press("x", "n", "o", "enter")
        assert desk.link.declined == [(desk.question.id, "no")]
        await desk.until(lambda: not desk.is_open)
        await desk.until(lambda: toasts(desk.app)[-1:] == ["Declined. claude-code 2.1 continues."])


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["claude-code 2.1", "desk"])
async def test_keys_that_come_with_a_question_do_nothing(peer: str) -> None:
    async with asked(DATABASE, hands_off_s=60.0, peer=peer) as desk:
        await desk.press("x", "2", "down", "enter", "escape", "ctrl+p")
        assert desk.is_open and desk.marks == "( )( )( )" and not desk.dialog.query(".-cursor")
        assert not desk.link.answers and not desk.link.declined and not desk.dialog.has_class("-declining")
        assert "Keys typed before you saw this question were ignored." in desk.shown()
        desk.dialog._key_pause = KeyPause(0.0)
        await desk.press("2", "enter")
        assert desk.link.answers == [(desk.question.id, (Answer(("SQLite",)),))]


def test_who_types_on_and_on_is_heard_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("mcpdesk.tui.terminal.time.monotonic", lambda: now)
    hands_off = KeyPause(1.0)
    hands_off.begin()
    for _ in range(5):
        now += 0.5
        assert hands_off.ignores_key()
    now += 0.5
    assert not hands_off.ignores_key()


@pytest.mark.slow
async def test_what_is_typed_on_does_nothing_on_the_screen_below() -> None:
    async with asked(DATABASE, after_s=60.0) as desk:
        await desk.press("x", "n", "o", "enter")
        await desk.until(lambda: not desk.is_open)
        await desk.press("t", "2", "enter", "q")
        assert desk.app.screen is desk.app.main and desk.app.main.shown == "workbench"
        said = "Keys typed while the question closed were ignored."
        assert toasts(desk.app)[-1] == said and toasts(desk.app).count(said) == 1
        await desk.press("f1")
        assert desk.app.screen is not desk.app.main


@pytest.mark.slow
async def test_nothing_that_is_typed_behind_an_answer_counts() -> None:
    async with asked(DATABASE) as desk:
        desk.link.answer = lambda *_: Future()  # type: ignore[method-assign]
        await desk.press("2", "enter", "1", "x", "enter")
        assert "Sending" in desk.shown() and desk.marks == "( )(•)( )" and not desk.link.declined


@pytest.mark.slow
async def test_later_keeps_what_was_chosen() -> None:
    async with asked(DATABASE, CHECKS) as desk:
        await desk.press("2", "enter", "3", "escape")
        assert not desk.is_open and desk.question in desk.link.questions()
        await desk.press("a")
        assert desk.marks == "( )(•)( )"
        await desk.press("enter")
        assert desk.marks == "[ ][ ][x][ ]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": QuestionState.ANSWERED, "answers": (Answer(("SQLite",)),), "answered_by": "attached desk"},
         "was answered by attached desk"),
        ({"state": QuestionState.TIMED_OUT}, "timed out"),
        ({"state": QuestionState.WITHDRAWN, "reason": "client gone"}, "was withdrawn: client gone"),
    ],
    ids=["answered", "timed out", "withdrawn"],
)  # fmt: skip
async def test_an_end_elsewhere_closes_the_dialog_and_says_so(changes: dict[str, object], said: str) -> None:
    async with asked(DATABASE) as desk:
        await desk.press("1")
        desk.end_elsewhere(**changes)
        await desk.until(lambda: not desk.is_open)
        await desk.until(lambda: toasts(desk.app)[-1:] == [f"The question of claude-code 2.1 {said}"])


@pytest.mark.slow
async def test_an_answer_that_comes_too_late_is_said_to_be() -> None:
    async with asked(DATABASE) as desk:
        desk.link.answer = lambda *_: Future()  # type: ignore[method-assign]
        await desk.press("1", "enter")
        assert desk.is_open
        others = (Answer(("SQLite",)),)
        desk.end_elsewhere(state=QuestionState.ANSWERED, answers=others, answered_by="other desk")
        await desk.until(lambda: not desk.is_open)
        await desk.until(lambda: "was answered by other desk" in "".join(toasts(desk.app)[-1:]))


@pytest.mark.slow
async def test_the_mouse_does_it_all() -> None:
    async with asked(DATABASE, CHECKS) as desk:
        rows = desk.dialog.query(OptionRow)
        await desk.pilot.click(rows[1])
        assert desk.marks == "( )(•)( )"
        keys = desk.dialog.query_one(PartLine)
        said = next(part.text.plain for part in keys.parts if part.action == "screen.next_page")
        column = keys.render().plain.index(said)
        await desk.pilot.click(keys, offset=(column + 1, 0))
        await desk.until(lambda: desk.marks == "[ ][ ][ ][ ]")
        await desk.pilot.click(AnswerLine)
        await desk.press("x", "enter")
        assert desk.link.answers[0][1] == (Answer(("SQLite",)), Answer(other="x"))


@pytest.mark.slow
async def test_defaults_are_filled_in_and_may_stay() -> None:
    async with asked(*FORM) as desk:
        await desk.press("enter", "enter", "enter")
        assert desk.link.answers[0][1] == (Answer(other="Ada"), Answer(("large",)), Answer())


@pytest.mark.slow
async def test_what_is_out_of_bounds_is_said_before_it_is_sent() -> None:
    async with asked(FORM[2]) as desk:
        await desk.press("1", "0", "0", "enter")
        assert str(desk.dialog.query_one(".note", Static).content) == "At most 99."
        await desk.press("backspace", "enter")
        assert desk.link.answers[0][1] == (Answer(other="10"),)


@pytest.mark.slow
async def test_only_what_is_offered_can_be_chosen_where_own_words_are_not() -> None:
    async with asked(FORM[1]) as desk:
        await desk.press("3", "down", "down", "down")
        assert desk.marks == "( )(•)" and desk.app.focused is None
        await desk.press("1", "enter")
        assert desk.link.answers[0][1] == (Answer(("small",)),)


@pytest.mark.slow
async def test_a_link_is_agreed_to_copied_and_opened_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    async def open_link(app: object, link: str) -> None:
        opened.append(link)

    monkeypatch.setattr("mcpdesk.tui.forms.question_dialog.open_link", open_link)
    async with asked(LINK) as desk:
        shown = str(desk.dialog.query_one(".link", Static).content)
        assert shown == LINK.link and opened == []
        await desk.press("y", "o")
        assert desk.app.clipboard == LINK.link and opened == [LINK.link]
        await desk.press("enter")
        assert desk.link.answers[0][1] == (Answer(),)


@pytest.mark.slow
async def test_a_link_that_is_none_of_the_web_cannot_be_agreed_to() -> None:
    async with asked(replace(LINK, link="javascript:alert(1)")) as desk:
        await desk.press("enter")
        assert desk.link.answers == []
        assert "only http" in str(desk.dialog.query_one(".note", Static).content).lower()


@pytest.mark.slow
async def test_cancelling_is_there_for_questions_that_allow_it() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("c")
        assert desk.link.cancelled == []
    async with asked(DATABASE, may_cancel=True) as desk:
        await desk.press("c")
        assert desk.link.cancelled == [desk.question.id]
        await desk.until(lambda: not desk.is_open)
        await desk.until(lambda: toasts(desk.app)[-1:] == ["Cancelled. claude-code 2.1 continues."])


@pytest.mark.slow
async def test_letters_are_keys_again_after_escape() -> None:
    async with asked(Page("Why?"), may_cancel=True) as desk:
        await desk.press("d", "c", "escape")
        assert desk.link.cancelled == [] and desk.marks == "(•)"
        await desk.press("c")
        assert desk.link.cancelled == [desk.question.id]


@pytest.mark.slow
async def test_an_approval_is_allowed_by_a_digit_and_enter() -> None:
    async with asked(APPROVAL, kind=QuestionKind.APPROVAL) as desk:
        assert "command: rm -rf build" in desk.shown() and "x deny" in desk.shown()
        await desk.press("enter")
        assert desk.link.answers == [] and "Choose at least one option." in desk.shown()
        await desk.press("1", "enter")
        assert desk.link.answers == [(desk.question.id, (Answer((Approval.ONCE,)),))]
        await desk.until(lambda: toasts(desk.app)[-1:] == ["Allowed. claude-code 2.1 continues."])


@pytest.mark.slow
@pytest.mark.parametrize("keys", [("x",), ("3", "enter")])
async def test_denying_asks_for_the_reason(keys: tuple[str, ...]) -> None:
    async with asked(APPROVAL, kind=QuestionKind.APPROVAL) as desk:
        await desk.press(*keys)
        assert "deny, because" in desk.shown() and desk.link.answers == []
        await desk.press(*"no", "enter")
        assert desk.link.declined == [(desk.question.id, "no")]
        await desk.until(lambda: toasts(desk.app)[-1:] == ["Denied. claude-code 2.1 continues."])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 16), (120, 40)])
async def test_what_is_chosen_from_stays_in_sight_below_long_arguments(size: tuple[int, int]) -> None:
    page = replace(APPROVAL, detail="command:\n" + "\n".join(f"    line {number}" for number in range(200)))
    async with asked(page, kind=QuestionKind.APPROVAL, size=size) as desk:
        text = desk.shown()
        assert "line 0" in text and "allow once" in text and "deny" in text and "esc later" in text
        await desk.press("pagedown")
        assert "line 0" not in desk.shown() and "allow once" in desk.shown()


@pytest.mark.slow
async def test_an_approval_that_ends_elsewhere_says_how() -> None:
    async with asked(APPROVAL, kind=QuestionKind.APPROVAL) as desk:
        desk.end_elsewhere(
            state=QuestionState.ANSWERED, answers=(Answer((Approval.ONCE,)),), answered_by="desk 2"
        )
        said = "The question of claude-code 2.1 was allowed by desk 2"
        await desk.until(lambda: toasts(desk.app) == [said])


@pytest.mark.slow
async def test_a_key_goes_to_the_next_question_and_what_was_chosen_stays() -> None:
    async with asked(DATABASE) as desk:
        second = desk.link.ask(CHECKS)
        await desk.until(lambda: "g q: 1 more" in desk.shown())
        await desk.press("2", "g", "q")
        await desk.until(lambda: desk.is_open and desk.dialog.question == second)
        await desk.press("g", "q")
        await desk.until(lambda: desk.is_open and desk.dialog.question == desk.question)
        assert "(•)" in desk.marks


@pytest.mark.slow
async def test_a_question_that_was_skipped_is_offered_again_after_the_next() -> None:
    async with asked(DATABASE) as desk:
        second = desk.link.ask(CHECKS)
        await desk.until(lambda: "g q: 1 more" in desk.shown())
        await desk.press("g", "q")
        await desk.until(lambda: desk.is_open and desk.dialog.question == second)
        assert desk.app.main.questions.opened == {second.id}
        await desk.press("x", "enter")
        await desk.until(lambda: desk.app.main.questions.next == desk.question)
        await desk.until(lambda: desk.is_open and desk.dialog.question == desk.question)


@pytest.mark.slow
async def test_the_question_of_a_client_that_left_says_so() -> None:
    async with asked(DATABASE) as desk:
        await desk.until(lambda: "claude-code 2.1 asks" in desk.shown())
        desk.link.core = replace(desk.link.core, clients=())
        await desk.until(lambda: "claude-code 2.1 (has left) asks" in desk.shown())


CODE = Page("Where to?", "Code", detail="three letters", rules={"pattern": "^[A-Z]{3}$"})
EXTRAS = replace(CHECKS, question=FORM[0].question, header="Extras", own_words=False, is_required=False)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_fields_of_a_form_are_on_one_page(size: tuple[int, int]) -> None:
    async with asked(*FORM, size=size, is_form=True, may_cancel=True) as desk:
        text = desk.shown()
        assert text.count("Where to?") == 1 and "3 fields" in text and "1 of 3" not in text
        assert "Name *" in text and "Ada" in text and "Size *" in text and "● large" in text and "Age" in text
        await desk.press("end", "x", "enter", "left", "tab", "4", "2")
        assert "enter answer" in desk.shown() and desk.link.answers == []
        await desk.press("enter")
        answers = (Answer(other="Adax"), Answer(("small",)), Answer(other="42"))
        assert desk.link.answers == [(desk.question.id, answers)]
        await desk.until(lambda: not desk.is_open)


@pytest.mark.slow
async def test_a_fault_in_a_form_is_named_at_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Page] = []

    def problem(page: Page, answer: Answer) -> str:
        checked.append(page)
        return answers_problem(page, answer)

    monkeypatch.setattr(question_page, "problem", problem)
    async with asked(CODE, *FORM[1:], EXTRAS, is_form=True) as desk:
        assert "three letters" in desk.shown() and "ctrl+s answer" in desk.shown()
        await desk.press("ctrl+s")
        assert "✗ write something" in desk.shown() and "1 field is not valid yet." in desk.shown()
        checked.clear()
        await desk.press(*"lis", "tab", "tab", *"100")
        assert checked == [CODE] * 3 + [FORM[2]] * 3, "only the changed field is checked"
        assert "✗ the text must match ^[A-Z]{3}$" in desk.shown() and "✗ at most 99" in desk.shown()
        await desk.press("ctrl+s")
        assert "2 fields are not valid yet." in desk.shown() and desk.link.answers == []
        focused = desk.app.focused
        assert isinstance(focused, LineField) and focused.entered_text == "lis", (
            "the first fault has the focus"
        )
        await desk.press("home", "delete", "delete", "delete", *"LIS", "enter", "enter", *"10")
        assert "✗" not in desk.shown()
        await desk.press("tab", "space", "down", "space", "ctrl+s")
        answers = (Answer(other="LIS"), Answer(("large",)), Answer(other="10"), Answer(("lint", "types")))
        assert desk.link.answers == [(desk.question.id, answers)]


@pytest.mark.slow
async def test_letters_are_keys_outside_the_texts_of_a_form_and_a_postponed_one_keeps_its_answers() -> None:
    async with asked(*FORM, is_form=True, may_cancel=True) as desk:
        await desk.press("end", "d", "tab", "1")
        assert "○ large" in desk.shown() and not desk.dialog.has_class("-declining")
        await desk.press("escape")
        assert not desk.is_open
        await desk.press("a")
        await desk.until(lambda: desk.is_open and "Adad" in desk.shown() and "● small" in desk.shown())
        await desk.press("escape", "x", *"no", "enter")
        assert desk.link.declined == [(desk.question.id, "no")]
    async with asked(*FORM, is_form=True, may_cancel=True) as desk:
        await desk.press("tab", "c")
        assert desk.link.cancelled == [desk.question.id]


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (40, 12), (30, 8)])
async def test_a_long_form_scrolls_and_shows_the_place_in_it(size: tuple[int, int]) -> None:
    pages = [Page("Fill in all of this", f"Field {number}", is_required=False) for number in range(1, 61)]
    async with asked(*pages, size=size, is_form=True) as desk:
        await desk.until(lambda: "Field 1 " in desk.shown() and "Field 60" not in desk.shown())
        await desk.press(*["tab"] * 18)
        await desk.until(lambda: "Field 19" in desk.shown())
        await desk.until(lambda: "19 of 60" in desk.shown() or size[0] < 60)
        assert desk.dialog.query_one(Form).show_vertical_scrollbar
        assert all(row.endswith(("│", "╮", "╯", " ")) for row in desk.shown().split("\n"))


CHOICE = Page("Which?", options=(Option("a"),))
WORDS = Page("Why?")
LONG = Page("Write", is_long=True)
LINK_PAGE = Page("Open", link="https://example.org/", own_words=False)

APPROVAL_PAGE = Page("May p call t?", options=(Option("allow once"),), own_words=False, detail="command: ls")
DETAILED = replace(APPROVAL_PAGE, detail="\n".join("abcdefghij"))


def keys(
    *pages: Page,
    at: int = 0,
    may_cancel: bool = False,
    kind: QuestionKind = QuestionKind.QUESTION,
    **state: bool,
) -> str:
    question = Question(1, "s", "p", "t", pages, 0.0, 1.0, may_cancel, kind=kind)
    hints = question_keys(question, at, **state)
    return ", ".join(f"{hint.key} {hint.title}" for hint in hints)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (keys(CHOICE), "digits choose, space toggle, enter answer, x decline, esc later"),
        (
            keys(CHOICE, would_choose=True),
            "digits choose, space toggle, enter choose, x decline, esc later",
        ),
        (keys(CHOICE, is_declining=True), "enter decline, esc back"),
        (keys(APPROVAL_PAGE, kind=QuestionKind.APPROVAL, is_declining=True), "enter deny, esc back"),
        (keys(CHOICE, WORDS), "digits choose, space toggle, enter next, x decline, esc later"),
        (keys(CHOICE, WORDS, at=1), "enter answer, ⌫ back, x decline, esc later"),
        (keys(WORDS, is_writing=True), "enter answer, esc x decline, esc leave the text"),
        (keys(LONG, is_writing=True), "enter answer, ctrl+j new line, esc x decline, esc leave the text"),
        (
            keys(APPROVAL_PAGE, kind=QuestionKind.APPROVAL),
            "digits choose, space toggle, enter answer, x deny, esc later",
        ),
        (
            keys(DETAILED, kind=QuestionKind.APPROVAL),
            "digits choose, space toggle, enter answer, x deny, pgdn scroll, esc later",
        ),
        (keys(LINK_PAGE, may_cancel=True), "o open, y copy, enter agree, x decline, c cancel, esc later"),
    ],
)
def test_keys_of_a_page(told: str, expected: str) -> None:
    assert told == expected
