"""The output of a program on the screen: following, wrapping, forgetting."""

from __future__ import annotations

from mcpdesk.tui.results.program_output import KEPT_ROWS, LONGEST, OutputView
from tests.support.widgets import staged


async def test_pieces_are_joined_where_they_were_cut() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        view.add("one\ntw")
        assert view.rows == ["one", "tw"]
        view.add("o\nthr")
        view.add("ee\n")
        assert view.rows == ["one", "two", "three"]
        await pilot.pause()
        assert view.render_line(1).text.rstrip() == "two"


async def test_long_lines_are_wrapped_and_wrapped_anew_in_another_room() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        width = view.size.width
        view.add("x" * (width + 5) + "\nend\n")
        assert [len(row) for row in view.rows] == [width, 5, 3]
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert len(view.rows) > 3 and "".join(view.rows) == "x" * (width + 5) + "end"
        assert view.text.splitlines() == ["x" * (width + 5), "end"]


async def test_it_follows_until_somebody_scrolls_up_and_again_at_the_end() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        view.focus()
        view.add("".join(f"{n}\n" for n in range(200)))
        await pilot.pause()
        assert view.following and view.scroll_offset.y == view.max_scroll_y > 100
        await pilot.press("pageup")
        await pilot.wait_for_scheduled_animations()
        at = view.scroll_offset.y
        assert not view.following
        view.add("more\n" * 50)
        await pilot.pause()
        assert view.scroll_offset.y == at
        await pilot.press("end")
        await pilot.wait_for_scheduled_animations()
        assert view.following
        view.add("more\n" * 50)
        await pilot.pause()
        assert view.scroll_offset.y == view.max_scroll_y
        view.toggle()
        assert not view.following


async def test_only_the_newest_rows_are_kept_and_what_is_read_stays_in_place() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        view.add("".join(f"{n}\n" for n in range(KEPT_ROWS - 10)))
        view.toggle()
        view.scroll_to(y=9_000, animate=False, immediate=True, force=True)
        await pilot.pause()
        seen = view.render_line(0).text.rstrip()
        view.add("".join(f"new {n}\n" for n in range(20)))
        await pilot.pause()
        assert len(view.rows) == KEPT_ROWS * 4 // 5
        assert view.render_line(0).text.rstrip() == seen == "9000"


async def test_a_progress_bar_is_one_line_and_an_endless_line_is_cut() -> None:
    view = OutputView()
    async with staged(view):
        for percent in range(0, 101, 10):
            view.add(f"\rloading {percent} %")
        assert view.rows == ["loading 100 %"]
        view.add("\r\nnext\r\n")
        assert view.rows == ["loading 100 %", "next"]
        view.clear()
        view.add("y" * LONGEST * 3)
        assert len(view.text) == LONGEST * 3 + 2


async def test_nothing_of_a_program_reaches_the_terminal() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        view.add("\x1b[2J\x1b]0;evil\x07a\x1b[31mred\x1b[0m\x07\n")
        await pilot.pause()
        strip = view.render_line(0)
        assert strip.text.rstrip() == "ared␇"
        assert any(segment.style and segment.style.color for segment in strip if segment.text == "red")
