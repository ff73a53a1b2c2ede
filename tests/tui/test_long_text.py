"""Texts of any size are drawn row by row, and can be searched and scrolled."""

from __future__ import annotations

from functools import partial

import pytest

from mcpdesk.tui.results.long_text import MAX_SEGMENT_LENGTH, MAX_WRAPPED_LENGTH, TextLayout, line_start
from mcpdesk.tui.results.result_view import ResultContent, ResultView
from tests.support.patience import until
from tests.support.widgets import staged
from tests.tui.test_result_view import outcome


def rows(text: str, width: int) -> list[str]:
    layout = TextLayout(text, width)
    layout.grow()
    return [layout.row(index).rstrip() for index in range(layout.row_count)]


@pytest.mark.parametrize(
    ("text", "width", "drawn"),
    [
        ("one two three\n\nfour", 8, ["one two", "three", "", "four"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("a\r\nb\n", 5, ["a", "b", ""]),
        ("\x1b]0;x\x07\ty", 20, ["␛]0;x␇    y"]),
        ("漢字かな", 5, ["漢字", "かな"]),
        ("naïve 漢字 words", 9, ["naïve", "漢字", "words"]),
        ("one two é", 7, ["one two", "é"]),
        ("", 5, [""]),
    ],
)
def test_lines_break_between_words_and_hold_no_control_characters(
    text: str, width: int, drawn: list[str]
) -> None:
    assert rows(text, width) == drawn


def test_a_text_that_is_one_line_is_drawn_whole_and_each_offset_is_found() -> None:
    text = "".join(f"word{number:06} " for number in range(5_000))
    layout = TextLayout(text, 50)
    at = text.index("word004321")
    assert "word004321" in layout.row(layout.row_of(at))
    assert not layout.is_complete, "only what is asked for is laid out"
    assert "".join(row.replace(" ", "") for row in rows(text, 50)) == text.replace(" ", "")


@pytest.mark.parametrize("before", ["", "one "])
def test_a_long_line_without_spaces_is_drawn_whole(before: str) -> None:
    text = before + "x" * (2 * MAX_SEGMENT_LENGTH + 100)
    drawn = rows(text, 50)
    assert "".join(drawn).replace(" ", "") == text.replace(" ", "") and len(drawn) < len(text) / 50 + 5


@pytest.mark.slow
def test_lines_of_a_very_long_text_break_where_the_room_ends() -> None:
    text = ("one two three\t漢字\n" * (MAX_WRAPPED_LENGTH // 10))[: MAX_WRAPPED_LENGTH + 1]
    layout = TextLayout(text, 8)
    layout.grow(offset=40)
    assert [layout.row(index) for index in range(4)] == ["one two ", "three   ", " 漢字", "one two "]
    at = text.index("one", MAX_WRAPPED_LENGTH // 2)
    assert layout.row(layout.row_of(at)) == "one two "


def test_lines_are_counted_from_one() -> None:
    assert [line_start("a\nbc\nd", number) for number in (1, 2, 3, 9)] == [0, 2, 5, 5]


@pytest.mark.slow
async def test_hits_in_all_texts_of_a_result_are_gone_through_in_both_directions() -> None:
    view = ResultView()
    first = "\n".join(f"line {number}" for number in range(200)) + "\nNeedle one"
    content = [{"type": "text", "text": first}, {"type": "text", "text": "x\n" * 100 + "needle two"}]
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": content}), {})
        view.content.focus()
        await pilot.press("slash", *"needle")
        await until(lambda: "Needle one" in stage.shown() and "1 of 2" in stage.shown(), pilot)
        await pilot.press("enter", "n")
        await until(lambda: "needle two" in stage.shown() and "2 of 2" in stage.shown(), pilot)
        await pilot.press("N")
        await until(lambda: "Needle one" in stage.shown() and "1 of 2" in stage.shown(), pilot)
        await pilot.press("escape")
        await until(lambda: "/needle" not in stage.shown(), pilot)
        stage.query_one(ResultContent).action_go_to()
        await pilot.press(*"100", "enter")
        await until(lambda: "line 99" in stage.shown(), pilot)
        stage.query_one(ResultContent).action_go_to()
        await pilot.press(*"0%", "enter")
        await until(lambda: "line 0" in stage.shown(), pilot)
        await pilot.press("G")
        await until(lambda: "needle two" in stage.shown(), pilot)


@pytest.mark.slow
async def test_markdown_is_searched_as_its_text_and_json_as_a_tree() -> None:
    view = ResultView()
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": [{"type": "text", "text": "# Head\n\n* one **bold** word"}]}), {})
        await until(lambda: "bold" in stage.shown(), pilot)
        view.focus_contents()
        await pilot.press("slash", *"bold")
        await until(lambda: "**bold**" in stage.shown() and "1 of 1" in stage.shown(), pilot)
        await view.show(outcome({"content": [{"type": "text", "text": '{"a": {"deep": 5}}'}]}), {})
        await until(lambda: "deep" in stage.shown(), pilot)
        view.focus_contents()
        await pilot.press("slash", *"deep")
        await until(lambda: "/deep▏  1 of 1" in stage.shown(), pilot)


async def test_rows_that_are_selected_with_the_mouse_are_copied() -> None:
    view = ResultView()
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": [{"type": "text", "text": "one two\nthree four"}]}), {})
        await until(lambda: "three four" in stage.shown(), pilot)
        text = view.content.texts[0]
        await pilot.mouse_down(text, offset=(4, 0))
        await pilot.hover(text, offset=(5, 1))
        await pilot.mouse_up(text, offset=(5, 1))
        assert stage.screen.get_selected_text() == "two\nthree"
        highlighted = [
            segment.text
            for row in range(2)
            for segment in text.render_line(row)
            if segment.style is not None and segment.style.bgcolor != text.rich_style.bgcolor
        ]
        assert highlighted == ["two", "three "]


@pytest.mark.parametrize("width", [7, 20, 100])
def test_the_offset_of_each_row_leads_back_to_it(width: int) -> None:
    layout = TextLayout("one two three 漢字かな\n\nfour\r\n" * 20 + "x" * 300, width)
    layout.grow()
    assert all(layout.row_of(layout.offset_of(row)) == row for row in range(layout.row_count))


@pytest.mark.slow
async def test_the_text_at_the_top_stays_there_in_another_width_and_back() -> None:
    view = ResultView()
    text = "".join(
        f"line {number} and some words that wrap where the room is small\n" for number in range(900)
    )
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": [{"type": "text", "text": text}]}), {})
        content = view.content
        await until(lambda: content.max_scroll_y > 800, pilot)

        def goes_there() -> bool:
            row = content.texts[0].row_of(text.index("line 612 "))
            y = content.texts[0].virtual_region.y + row
            content.scroll_to(y=y, animate=False, force=True, immediate=True)
            return "line 612 " in stage.shown()

        await until(goes_there, pilot)

        def is_first() -> bool:
            row = content.scroll_offset.y - content.texts[0].virtual_region.y
            return row == content.texts[0].row_of(text.index("line 612 "))

        for width in (100, 40, 30, 60):
            await pilot.resize_terminal(width, 12)
            await until(lambda: is_first() and "line 612 " in stage.shown(), pilot)


@pytest.mark.slow
async def test_the_markdown_at_the_top_stays_there_in_another_width_and_back() -> None:
    view = ResultView()
    words = "and some words that wrap where the room is small " * 3
    text = "# Report\n\n" + "".join(f"* point {number} {words}\n\n" for number in range(90))
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome({"content": [{"type": "text", "text": text}]}), {})
        content = view.content
        await until(lambda: content.max_scroll_y > 200, pilot)

        def first_row() -> str:
            return stage.shown().split("\n")[content.region.y]

        while "point 61 " not in first_row():
            rows = stage.shown().split("\n")[content.region.y :]
            below = next((at for at, row in enumerate(rows) if "point 61 " in row), len(rows) // 2)
            content.scroll_relative(y=below, animate=False, force=True, immediate=True)
            await pilot.pause()
        for width in (100, 40, 30, 60):
            await pilot.resize_terminal(width, 12)
            wide = partial(lambda width: stage.size.width == width and "point 61 " in first_row(), width)
            await until(wide, pilot)
