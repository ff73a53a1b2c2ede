"""Room for own words: a line, or a text in which enter answers."""

from __future__ import annotations

from mcpdesk.inbox.question import Answer, Page
from mcpdesk.tui.forms.question_page import LongWords
from tests.support.asking import asked

LONG = Page("Write it.", detail="user: " + "Lorem ipsum. " * 400, is_long=True)


async def test_enter_answers_a_text_and_another_key_begins_a_new_line() -> None:
    async with asked(LONG) as desk:
        assert isinstance(desk.app.focused, LongWords)
        await desk.press("a", "ctrl+j", "b", "enter")
        assert desk.link.answers[0][1] == (Answer(other="a\nb"),)


async def test_what_is_to_be_read_scrolls_beside_the_text() -> None:
    async with asked(LONG) as desk:
        detail = desk.dialog.query_one(".detail")
        await desk.press("pagedown")
        assert detail.scroll_offset.y > 0 and desk.dialog.page.scroll_offset.y == 0
        await desk.press("pageup", "x")
        assert detail.scroll_offset.y == 0
        words = desk.dialog.query_one(LongWords)
        assert words.text == "x" and desk.dialog.region.contains_region(words.region)


async def test_escape_frees_the_letters_and_comes_back_with_a_digit() -> None:
    async with asked(LONG) as desk:
        await desk.press("escape")
        assert desk.is_open and desk.app.focused is None
        await desk.press("1", "d")
        assert desk.dialog.query_one(LongWords).text == "d" and desk.link.declined == []
        await desk.press("escape", "d", "enter")
        assert desk.link.declined == [(desk.question.id, "")]
