"""The pages of a question: drafts, options and own words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.tui.forms.question_page import AnswerArea, AnswerDraft, AnswerLine, OptionRow, QuestionPage
from tests.support.asking import DATABASE, asked

LONG = Page(
    "A [red]long[/red] \x1b[31mstory. " * 200,
    "A header",
    tuple(Option(f"option {number} " + "with words " * 8, "described at length " * 6) for number in range(9)),
    multi_select=True,
)


@pytest.mark.slow
async def test_something_else_is_written_after_the_last_digit() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("1", "3", "D", "2", "enter")
        assert desk.link.answers[0][1] == (Answer(other="D2"),)


@pytest.mark.slow
async def test_a_page_without_options_is_for_writing() -> None:
    async with asked(Page("Why?")) as desk:
        assert isinstance(desk.app.focused, AnswerLine)
        await desk.press("s", "o", "enter")
        assert desk.link.answers[0][1] == (Answer(other="so"),)


@pytest.mark.slow
@pytest.mark.parametrize("description", ["", "like the sea"])
async def test_a_description_stands_beside_its_option(description: str) -> None:
    async with asked(Page("Which?", "", (Option("red"), Option("blue", description)))) as desk:
        labels = desk.dialog.query("OptionRow .label").results(Static)
        descriptions = desk.dialog.query("OptionRow .description").results(Static)
        assert [str(each.content) for each in labels][:2] == ["red", "blue"]
        assert [str(each.content) for each in descriptions] == (["", description] if description else [])


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 14), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_long_question_scrolls_and_keeps_its_keys_in_sight(size: tuple[int, int]) -> None:
    async with asked(LONG, size=size) as desk:
        page = desk.dialog.query_one(QuestionPage)
        screen = desk.dialog.region
        assert page.max_scroll_y > 0 or size[1] == 60
        for keys in (["enter"], ["x"], ["escape"], ["9"], ["pageup", "pagedown"]):
            await desk.press(*keys)
            assert screen.contains_region(desk.dialog.query_one("PartLine").region)
        await desk.press("enter")
        assert desk.link.answers[0][1][0].selected[0].startswith("option 8")


@pytest.mark.slow
async def test_the_row_under_the_cursor_is_in_sight() -> None:
    async with asked(LONG) as desk:
        await desk.press("9")
        row = desk.dialog.query(OptionRow)[8]
        assert desk.dialog.query_one(QuestionPage).region.overlaps(row.region)


@pytest.mark.slow
async def test_text_of_strangers_is_shown_as_it_is() -> None:
    async with asked(replace(DATABASE, question="[red]Which[/red] \x1b[31m?", header="[b]H")) as desk:
        shown = [str(text.content) for text in desk.dialog.query(".head Static").results(Static)]
        assert shown == ["[red]Which[/red] ␛[31m?", "[b]H"]


@pytest.mark.slow
async def test_arrows_and_space_choose_as_well() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("down", "down", "space", "enter")
        assert desk.link.answers[0][1] == (Answer(("SQLite",)),)


OPTIONS = (Option("a"), Option("b"), Option("c"))


def test_many_choices_come_in_the_order_of_the_options() -> None:
    draft = AnswerDraft(Page("Which?", options=OPTIONS, multi_select=True))
    draft.toggle(2)
    draft.toggle(0)
    draft.write(" and d ")
    assert draft.answer == Answer(("a", "c"), "and d")
    assert [draft.mark(index) for index in range(4)] == ["[x]", "[ ]", "[x]", "[x]"]


def test_own_words_and_an_option_exclude_each_other_on_a_page_for_one_choice() -> None:
    draft = AnswerDraft(Page("Which?", options=OPTIONS))
    draft.toggle(1)
    draft.write("d")
    assert draft.answer == Answer(other="d")
    draft.toggle(1)
    assert draft.answer == Answer(("b",)) and draft.other == "d"
    assert [draft.mark(index) for index in range(4)] == ["( )", "(•)", "( )", "( )"]


def test_words_that_are_blank_are_no_answer() -> None:
    draft = AnswerDraft(Page("Why?"))
    draft.write("   ")
    assert draft.problem == "write something"


LONG_TEXT = Page("Write it.", detail="user: " + "Lorem ipsum. " * 400, is_long=True)


@pytest.mark.slow
async def test_enter_answers_a_text_and_another_key_begins_a_new_line() -> None:
    async with asked(LONG_TEXT) as desk:
        assert isinstance(desk.app.focused, AnswerArea)
        await desk.press("a", "ctrl+j", "b", "enter")
        assert desk.link.answers[0][1] == (Answer(other="a\nb"),)


@pytest.mark.slow
async def test_what_is_to_be_read_scrolls_beside_the_text() -> None:
    async with asked(LONG_TEXT) as desk:
        detail = desk.dialog.query_one(".detail")
        await desk.press("pagedown")
        assert detail.scroll_offset.y > 0 and desk.dialog.page.scroll_offset.y == 0
        await desk.press("pageup", "x")
        assert detail.scroll_offset.y == 0
        words = desk.dialog.query_one(AnswerArea)
        assert words.text == "x" and desk.dialog.region.contains_region(words.region)


@pytest.mark.slow
async def test_escape_frees_the_letters_and_comes_back_with_a_digit() -> None:
    async with asked(LONG_TEXT) as desk:
        await desk.press("escape")
        assert desk.is_open and desk.app.focused is None
        await desk.press("1", "d")
        assert desk.dialog.query_one(AnswerArea).text == "d" and desk.link.declined == []
        await desk.press("escape", "x", "enter")
        assert desk.link.declined == [(desk.question.id, "")]


@pytest.mark.slow
async def test_a_digit_that_is_pressed_again_keeps_the_choice_and_space_undoes_it() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("1", "1")
        assert desk.dialog.query_one(QuestionPage).draft.selected_indexes == {0}
        await desk.press("space")
        assert desk.dialog.query_one(QuestionPage).draft.selected_indexes == set()
        await desk.press("2", "2", "enter")
        assert desk.link.answers[0][1][0].selected == (DATABASE.options[1].label,)
