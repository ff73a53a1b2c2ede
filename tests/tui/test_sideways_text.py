"""Long lines that are not wrapped: results, raw frames and the output of jobs are scrolled sideways."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.results.line_layout import PIECE_LENGTH, LineLayout, Window
from mcpdesk.tui.results.long_text import BLOCK_LENGTH, LAYOUT_STEP_S, LongText
from mcpdesk.tui.results.program_output import OutputView
from mcpdesk.tui.results.result_view import ResultContent, ResultView
from mcpdesk.tui.screens.action_menu import action_choices
from mcpdesk.tui.screens.palette import action_choices as palette_choices
from mcpdesk.tui.traffic.traffic_detail import FramePage
from tests.support.activity import activity, job, link_with, part
from tests.support.patience import screen_text, until
from tests.support.traffic import IN, call, connection, settle
from tests.support.widgets import Stage, staged
from tests.support.workbench import Bench, bench
from tests.tui.test_result_view import outcome
from tests.tui.test_traffic_pane import running

pytestmark = pytest.mark.slow
SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)])
WORDS = " ".join(f"w{number:04}" for number in range(2_000))
"""A line whose word number n begins at column 6 n."""


def text_result(text: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


@asynccontextmanager
async def shown_result(text: str, size: tuple[int, int]) -> AsyncIterator[tuple[Bench, ResultContent]]:
    """The workbench with a result, its text in the focus."""
    async with bench(size=size) as desk:
        view = desk.pane.query_one(ResultView)
        await view.show(outcome(text_result(text)), {})
        view.content.focus()
        await until(lambda: view.content.has_focus and view.content.size.height > 0, desk.pilot)
        yield desk, view.content


def columns(screen: str) -> tuple[int, int]:
    """First and last column on the screen, (0, 0) if the screen does not name them."""
    match = re.search(r"columns ([\d,]+) to ([\d,]+)", screen)
    if match is None:
        return 0, 0
    first, last = (int(number.replace(",", "")) for number in match.groups())
    return first, last


@SIZES
async def test_a_long_line_of_a_result_is_one_row_that_scrolls_sideways(size: tuple[int, int]) -> None:
    async with shown_result(f"first\n{WORDS}\nlast", size) as (desk, content):
        assert "w0040" in screen_text(desk.app) and columns(screen_text(desk.app)) == (0, 0)
        assert not content.check_action("sideways", (1,))
        await desk.pilot.press("v", "b")
        width = content.texts[0].size.width
        await until(lambda: columns(screen_text(desk.app)) == (1, width), desk.pilot)
        assert "w0040" not in screen_text(desk.app) and "last" in screen_text(desk.app)
        for key, first in (("right", width // 2), ("l", 2 * (width // 2)), ("h", width // 2), ("left", 0)):
            await desk.pilot.press(key)
            await until(lambda: columns(screen_text(desk.app)) == (first + 1, first + width), desk.pilot)
            row = content.texts[0].render_line(1).text
            assert row == WORDS[first : first + width]
        await desk.pilot.press("left")
        assert content.first_column == 0, "there are no columns before the first"
        for _ in range(3 * len(WORDS) // width):
            content.action_sideways(1)
        assert content.texts[0].render_line(1).text == WORDS[-width:], "nor after the last"
        await desk.pilot.press("v", "b")
        await until(lambda: "w0040" in screen_text(desk.app), desk.pilot)
        assert columns(screen_text(desk.app)) == (0, 0)


@SIZES
async def test_the_next_result_is_not_wrapped_either_and_begins_at_its_first_column(
    size: tuple[int, int],
) -> None:
    async with shown_result(WORDS, size) as (desk, content):
        await desk.pilot.press("v", "b", "right")
        view = desk.pane.query_one(ResultView)
        await view.show(outcome(text_result("other " + WORDS)), {})
        await until(lambda: "other w0000" in screen_text(desk.app), desk.pilot)
        width = content.texts[0].size.width
        await until(lambda: columns(screen_text(desk.app)) == (1, width), desk.pilot)
        await view.show(outcome({"content": [], "structuredContent": {"n": 5}}), {})
        await until(lambda: columns(screen_text(desk.app)) == (0, 0), desk.pilot)
        assert not content.check_action("wrap", ())


async def test_the_columns_are_those_of_the_width_of_the_terminal() -> None:
    async with shown_result(WORDS, (80, 24)) as (desk, content):
        await desk.pilot.press("v", "b", "right")
        first = content.first_column
        for size in ((120, 40), (80, 24)):
            await desk.pilot.resize_terminal(*size)
            await until(lambda: desk.app.size.width == size[0], desk.pilot)
            await until(
                lambda: columns(screen_text(desk.app)) == (first + 1, first + content.texts[0].size.width),
                desk.pilot,
            )
            assert content.texts[0].render_line(0).text == WORDS[first:][: content.texts[0].size.width]


@SIZES
async def test_a_search_scrolls_sideways_to_each_hit(size: tuple[int, int]) -> None:
    text = f"needle\n{WORDS[:3_000]} needle {WORDS[3_000:9_000]} needle\nend"
    async with shown_result(text, size) as (desk, content):
        await desk.pilot.press("v", "b", "slash", *"needle", "enter")
        await until(lambda: "1 of 3" in screen_text(desk.app), desk.pilot)
        assert content.first_column == 0
        long_text = content.texts[0]
        for key, count, column in (("n", 2, 3_001), ("n", 3, 9_009), ("n", 1, 0), ("N", 3, 9_009)):
            await desk.pilot.press(key)
            await until(lambda: f"{count} of 3" in screen_text(desk.app), desk.pilot)
            first, last = content.first_column, content.first_column + long_text.size.width
            assert first <= column and column + len("needle") <= last
            assert "needle" in screen_text(desk.app) and columns(screen_text(desk.app)) == (first + 1, last)
            here = long_text.rich_style + long_text.get_component_rich_style("long-text--here", partial=True)
            marked = [
                segment.text
                for row in range(3)
                for segment in long_text.render_line(row)
                if segment.style is not None and segment.style.bgcolor == here.bgcolor
            ]
            assert marked == ["needle"], "only the current hit is marked as current"


async def test_a_hit_across_the_edge_of_two_pieces_is_marked() -> None:
    text = "x" * 509 + "needle" + "y" * 600
    view = ResultView()
    async with staged(view, (60, 12)) as (stage, pilot):
        await view.show(outcome(text_result(text)), {})
        view.content.focus()
        view.content.action_wrap()
        await pilot.press("slash", *"needle", "enter")
        await until(lambda: "xxneedley" in stage.shown(), pilot)
        segments = [segment.text for segment in view.content.texts[0].render_line(0)]
        assert "needle" in segments


async def selected(stage: Stage, pilot: Pilot[None], text: LongText, start: int, end: int) -> str | None:
    """Text that the mouse selects in the second row."""
    await pilot.mouse_down(text, offset=(start, 1))
    await pilot.hover(text, offset=(end, 1))
    await pilot.mouse_up(text, offset=(end, 1))
    return stage.screen.get_selected_text()


async def test_what_the_mouse_selects_in_scrolled_lines_is_copied() -> None:
    wide = "漢字かな" * 300
    view = ResultView()
    async with staged(view, (62, 12)) as (stage, pilot):
        await view.show(outcome(text_result(f"{WORDS}\n{wide}")), {})
        view.content.action_wrap()
        await until(lambda: "columns 1 to" in stage.shown(), pilot)
        (text,) = view.content.texts
        view.content.scroll_to_column(1_201)  # within a character of two cells
        await pilot.pause()
        row = text.render_line(1)
        assert row.cell_length == text.size.width
        assert row.text.startswith(" 字かな漢字"), "half of a wide character is a space"
        assert text.render_line(0).text.startswith(WORDS[1_201:1_240])
        assert await selected(stage, pilot, text, 1, 5) == "字かな"
        highlighted = [
            segment.text
            for segment in text.render_line(1)
            if segment.style is not None and segment.style.bgcolor != text.rich_style.bgcolor
        ]
        assert "".join(highlighted) == "字かな"
        view.content.action_wrap()
        assert not stage.screen.selections, "rows are others now"


async def test_marks_tabs_and_text_from_right_to_left_keep_their_columns() -> None:
    view = ResultView()
    keycaps = "0\ufe0f\u200d漢x" * 40  # a digit and its marks are one character of two cells
    shorter = ["漢字", "\u0301", "e" + "\u0301" * 2_000, ""]
    lines = ["e\u0301" * 200, "a\tb" * 100, "שלום עולם " * 40, "👩\u200d💻" * 100, keycaps, *shorter]
    async with staged(view, (42, 12)) as (stage, pilot):
        await view.show(outcome(text_result("\n".join(lines))), {})
        view.content.action_wrap()
        await until(lambda: "columns 1 to" in stage.shown(), pilot)
        (text,) = view.content.texts
        width = text.size.width
        view.content.scroll_to_column(60)
        drawn = [text.render_line(row) for row in range(5)]
        assert [cell_len(strip.text) for strip in drawn] == [width] * 5
        assert drawn[0].text == "e\u0301" * width
        assert drawn[1].text == ("a    b" * 100)[60 : 60 + width]
        assert drawn[2].text == lines[2][60 : 60 + width], "the order of characters is that of the text"
        assert drawn[3].text.startswith("👩\u200d💻" * (width // 2))
        assert drawn[4].text.startswith("0\ufe0f\u200d漢x0")
        view.content.scroll_to_column(61)
        assert text.render_line(4).text.startswith(" x0\ufe0f\u200d漢x0")
        for row in range(5, 9):
            assert text.render_line(row).text == " " * width, "this line ends before the first column"


@SIZES
async def test_the_place_in_a_text_stays_when_wrapping_changes(size: tuple[int, int]) -> None:
    text = "".join(f"line {number} {'x ' * 150}\n" for number in range(300))
    async with shown_result(text, size) as (desk, content):
        (long_text,) = content.texts
        await until(lambda: content.max_scroll_y > 800, desk.pilot)
        row = long_text.row_of(text.index("line 200 "))
        content.scroll_to(y=long_text.virtual_region.y + row, animate=False, force=True, immediate=True)
        await desk.pilot.pause()

        def first_row() -> str:
            return long_text.render_line(content.scroll_offset.y - long_text.virtual_region.y).text

        for _ in range(4):
            await desk.pilot.press("v", "b")
            await until(lambda: first_row().startswith("line 200 "), desk.pilot)


@SIZES
async def test_a_line_that_fills_the_view_stays_at_its_column(size: tuple[int, int]) -> None:
    async with shown_result(WORDS * 10, size) as (desk, content):
        (long_text,) = content.texts
        content.action_go_to()
        await desk.pilot.press(*"50%", "enter")
        await until(lambda: content.scroll_offset.y > 0, desk.pilot)
        top = long_text.render_line(content.scroll_offset.y - long_text.virtual_region.y).text[:30]
        await desk.pilot.press("v", "b")
        await until(lambda: top in screen_text(desk.app), desk.pilot)
        assert content.first_column > 10_000 and content.scroll_offset.y == 0
        await desk.pilot.press("v", "b")
        await until(lambda: content.scroll_offset.y > 0 and top in screen_text(desk.app), desk.pilot)


@pytest.mark.parametrize("text", ["x y" * 1_700_000, ("漢字かな " * 200_000 + "\n") * 5])
async def test_a_large_text_is_laid_out_in_steps_and_drawn_in_part(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown: list[tuple[float, int | None]] = []
    drawn: list[int] = []
    real_grow, real_window = LineLayout.grow, LineLayout.window

    def grow(self: LineLayout, seconds: float = 1e9, offset: int | None = None) -> None:
        grown.append((seconds, offset))
        real_grow(self, seconds, offset)

    def window(self: LineLayout, row: int, start: int, end: int) -> Window:
        drawn.append(len(real_window(self, row, start, end).text))
        return real_window(self, row, start, end)

    monkeypatch.setattr(LineLayout, "grow", grow)
    monkeypatch.setattr(LineLayout, "window", window)
    view = ResultView()
    async with staged(view, (120, 40)) as (stage, pilot):
        await view.show(outcome(text_result(text)), {})
        view.content.action_wrap()
        await until(lambda: "columns 1 to" in stage.shown(), pilot)
        width = view.content.texts[0].size.width
        for step in range(1, 21):
            await until(lambda: view.content.texts[0].widest_row(0, 0) > 20 * width, pilot)
            view.content.action_sideways(1)
            await pilot.pause()
            assert view.content.first_column == step * (width // 2)
        assert {limit for limit, offset in grown if offset is None} == {LAYOUT_STEP_S}
        assert all(offset is None or offset <= BLOCK_LENGTH for _, offset in grown)
        assert drawn and max(drawn) <= 3 * PIECE_LENGTH


@SIZES
async def test_a_raw_frame_is_one_row_that_scrolls_sideways(size: tuple[int, int]) -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    frame = call(1, "echo", {"words": WORDS})
    recording.frame(1, IN, frame)
    settle(recording)
    async with running(recording, size) as (app, pilot, pane):
        await pilot.press("v", "r", "home", "enter")
        await until(lambda: bool(pane.detail.query(LongText)), pilot)
        page = pane.detail.query_one(FramePage)
        page.focus()
        await pilot.pause()
        assert "columns" not in str(page.border_title)
        await pilot.press("v", "b")
        await until(lambda: columns(str(page.border_title))[0] == 1, pilot)
        await pilot.press("right", "l")
        (text,) = page.texts
        first, width = 2 * (text.size.width // 2), text.size.width
        await until(lambda: columns(screen_text(app)) == (first + 1, first + width), pilot)
        assert text.render_line(0).text == frame.decode()[first : first + width]
        assert text.size.height == 1
        await pilot.press("v", "b")
        await until(lambda: text.size.height > 10 and columns(screen_text(app)) == (0, 0), pilot)


@SIZES
async def test_the_output_of_a_job_scrolls_sideways_with_its_colours(size: tuple[int, int]) -> None:
    link = link_with(job("make"), job("other", started=1.0))
    link.outputs["profiles:make"] = (
        f"first\n\x1b[31m{WORDS[:600]}\x1b[32mgreen 漢字\x1b[0m\n\nlast\n".encode()
    )
    link.outputs["profiles:other"] = f"{WORDS}\n".encode()
    async with activity(link, size, show="jobs") as (app, pilot, pane):
        panel = part(pane, JobPanel)
        output = panel.output
        await until(lambda: "last" in output.text, pilot)
        await pilot.press("enter", "v", "b")
        assert output.has_focus and len(output.rows) == 4
        width = output.size.width
        await until(lambda: columns(screen_text(app)) == (1, width), pilot)
        for _ in range(30):
            await pilot.press("right")
        line = f"{WORDS[:600]}green 漢字"
        first = len(line) + 2 - width
        await until(lambda: columns(screen_text(app)) == (first + 1, first + width), pilot)
        y = next(y for y in range(output.size.height) if "green" in output.render_line(y).text)
        strip = output.render_line(y)
        assert strip.text == line[first:] and strip.cell_length == width
        styles = {segment.text: str(segment.style) for segment in strip}
        assert "color(2)" in styles["green 漢字"] and "color(1)" in styles[WORDS[first:600]]
        link.outputs["profiles:make"] += f"more {WORDS}\n".encode()
        await until(lambda: len(output.rows) == 5, pilot)
        assert output.first_column == first, "new output leaves the columns as they are"
        await pilot.press("escape", "j")
        await until(lambda: output.rows == [WORDS], pilot)
        await pilot.press("enter")
        await until(lambda: columns(screen_text(app)) == (1, width), pilot)
        await pilot.press("v", "b")
        await until(lambda: len(output.rows) > 10 and columns(screen_text(app)) == (0, 0), pilot)


async def test_an_empty_line_at_the_top_of_output_stays_there() -> None:
    view = OutputView()
    async with staged(view, (60, 12)) as (_, pilot):
        view.add("".join(f"{number} {'x' * 70}\n\n" for number in range(200)))
        view.following = False
        top = view.rows.index("", 300)
        view.scroll_to(y=top, animate=False, force=True, immediate=True)
        await pilot.pause()
        below = view.rows[view.scroll_offset.y + 1].split()[0]
        for _ in range(4):
            view.action_wrap()
            at = view.scroll_offset.y
            assert view.rows[at] == "" and view.rows[at + 1].split()[0] == below


async def test_the_actions_are_in_the_menu_and_the_palette() -> None:
    async with shown_result(WORDS, (120, 40)) as (desk, content):

        def listed() -> set[str]:
            return {choice.value.action.id for choice in action_choices(desk.app.main)}

        assert "long_text.wrap" in listed() and "long_text.sideways(1)" not in listed()
        assert "Wrap long lines, or show each as one row" in {
            entry.label for entry in palette_choices(desk.app)
        }
        await desk.pilot.press("v", "b")
        assert {"long_text.wrap", "long_text.sideways(1)", "long_text.sideways(-1)"} <= listed()
        assert content.has_focus
