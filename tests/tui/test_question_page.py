"""A page shows its options, takes own words, and stays usable however long it is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from textual.widgets import Static

from mcpdesk.inbox.question import Answer, Option, Page
from mcpdesk.tui.forms.question_page import OptionRow, OwnWords, QuestionPage
from tests.support.asking import DATABASE, asked

LONG = Page(
    "A [red]long[/red] \x1b[31mstory. " * 200,
    "A header",
    tuple(Option(f"option {number} " + "with words " * 8, "described at length " * 6) for number in range(9)),
    multi_select=True,
)


async def test_something_else_is_written_after_the_last_digit() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("1", "3", "D", "2", "enter")
        assert desk.link.answers[0][1] == (Answer(other="D2"),)


async def test_a_page_without_options_is_for_writing() -> None:
    async with asked(Page("Why?")) as desk:
        assert isinstance(desk.app.focused, OwnWords)
        await desk.press("s", "o", "enter")
        assert desk.link.answers[0][1] == (Answer(other="so"),)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (60, 14), (200, 60)], ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_long_question_scrolls_and_keeps_its_keys_in_sight(size: tuple[int, int]) -> None:
    async with asked(LONG, size=size) as desk:
        page = desk.dialog.query_one(QuestionPage)
        screen = desk.dialog.region
        assert page.max_scroll_y > 0 or size[1] == 60
        for keys in (["enter"], ["d"], ["escape"], ["9"], ["pageup", "pagedown"]):
            await desk.press(*keys)
            assert screen.contains_region(desk.dialog.query_one("PartLine").region)
        await desk.press("enter")
        assert desk.link.answers[0][1][0].selected[0].startswith("option 8")


async def test_the_row_under_the_cursor_is_in_sight() -> None:
    async with asked(LONG) as desk:
        await desk.press("9")
        row = desk.dialog.query(OptionRow)[8]
        assert desk.dialog.query_one(QuestionPage).region.overlaps(row.region)


async def test_text_of_strangers_is_shown_as_it_is() -> None:
    async with asked(replace(DATABASE, question="[red]Which[/red] \x1b[31m?", header="[b]H")) as desk:
        shown = [str(text.content) for text in desk.dialog.query(".head Static").results(Static)]
        assert shown == ["[red]Which[/red] ␛[31m?", "[b]H"]


async def test_arrows_and_space_choose_as_well() -> None:
    async with asked(DATABASE) as desk:
        await desk.press("down", "space", "enter")
        assert desk.link.answers[0][1] == (Answer(("SQLite",)),)
