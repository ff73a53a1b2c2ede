"""Output of programs: colours, wrapping, following."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len
from rich.color import Color

from mcpdesk.tui.results.program_output import MAX_LINE_LENGTH, MAX_ROWS, OutputView, plain, row_bounds, spans
from tests.support.widgets import staged


def styles(line: str) -> dict[str, str]:
    """Text to style, as Rich spells it."""
    return {text: str(style) for text, style in spans(line)}


def test_colours_and_attributes_become_styles() -> None:
    assert styles("a\x1b[1;31mred\x1b[0mb") == {"a": "none", "red": "bold color(1)", "b": "none"}
    assert styles("\x1b[4;7mx\x1b[24my\x1b[27mz") == {"x": "underline reverse", "y": "reverse", "z": "none"}
    assert styles("\x1b[94;103mx\x1b[39my\x1b[49mz") == {
        "x": "color(12) on color(11)", "y": "on color(11)", "z": "none",
    }  # fmt: skip


def test_palette_and_true_colours_are_known() -> None:
    ((_, palette),) = spans("\x1b[38;5;200mx")
    assert palette.color == Color.from_ansi(200)
    ((_, true),) = spans("\x1b[48;2;1;2;3mx")
    assert true.bgcolor == Color.from_rgb(1, 2, 3)
    assert styles("\x1b[38;5;99999mx\x1b[38;9mx")  # out of range, unknown


def test_black_and_white_can_be_read_on_every_theme() -> None:
    assert styles("\x1b[30mx") == {"x": "color(8)"}
    assert styles("\x1b[37mx\x1b[97my") == {"x": "none", "y": "none"}
    assert styles("\x1b[30;42mx\x1b[97;41my") == {"x": "color(0) on color(2)", "y": "color(15) on color(1)"}


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[2Jword", "\x1b[10;10Hword", "\x1b]0;a title\x07word", "\x1b]8;;http://x\x1b\\word\x1b]8;;\x1b\\",
        "\x1bPq#0;2;0\x1b\\word", "\x1b(Bword", "\x1b=word", "word\x1b[3", "word\x1b",
        "\x1b[?1049hword\x1b]0;open",
    ],
)  # fmt: skip
def test_commands_to_a_terminal_are_dropped(line: str) -> None:
    assert plain(line) == "word"


def test_other_control_characters_are_shown() -> None:
    assert plain("a\x07b\x9b31mc\x08") == "a␇b‹9b›31mc␈"


def test_any_bytes_give_the_same_letters_with_and_without_styles() -> None:
    chance = random.Random(7)
    pieces = [*"[]0;maé日\\P5", "31", "38", "\x1b", "\x07", "\x9b", "\t"]
    for _ in range(3_000):
        line = "".join(chance.choices(pieces, k=chance.randrange(24)))
        assert "".join(text for text, _ in spans(line)) == plain(line)
        assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in plain(line))


def test_a_number_of_any_length_says_nothing_and_breaks_nothing() -> None:
    assert list(spans(f"\x1b[31m\x1b[{'1' * 5_000}mred")) == list(spans("\x1b[31mred"))


def test_rows_are_no_wider_than_the_room_and_lose_nothing() -> None:
    for text in ("", "abc", "abcdefghij", "日本語日本語abc", "e\u0301" * 9, "a bc defgh i", "日本 語x 語"):
        rows = [text[start:end] for start, end in row_bounds(text, 4)]
        assert "".join(rows) == text and rows
        assert all(cell_len(row.rstrip()) <= 4 for row in rows)
    assert list(row_bounds("abc", 0)) == [(0, 3)]
    assert [text[start:end] for text in ["one two, three"] for start, end in row_bounds(text, 8)] == [
        "one two, ",
        "three",
    ], "lines break between words"
    assert list(row_bounds("日本", 1)) == [(0, 1), (1, 2)], (
        "a character that is wider than the room has a row"
    )


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


@pytest.mark.slow
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
        view.add("".join(f"{n}\n" for n in range(MAX_ROWS - 10)))
        view.toggle()
        view.scroll_to(y=9_000, animate=False, immediate=True, force=True)
        await pilot.pause()
        seen = view.render_line(0).text.rstrip()
        view.add("".join(f"new {n}\n" for n in range(20)))
        await pilot.pause()
        assert len(view.rows) == MAX_ROWS * 4 // 5
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
        view.add("y" * MAX_LINE_LENGTH * 3)
        assert len(view.text) == MAX_LINE_LENGTH * 3 + 2


async def test_nothing_of_a_program_reaches_the_terminal() -> None:
    view = OutputView()
    async with staged(view) as (_, pilot):
        view.add("\x1b[2J\x1b]0;evil\x07a\x1b[31mred\x1b[0m\x07\n")
        await pilot.pause()
        strip = view.render_line(0)
        assert strip.text.rstrip() == "ared␇"
        assert any(segment.style and segment.style.color for segment in strip if segment.text == "red")


@pytest.mark.slow
async def test_the_line_at_the_top_stays_there_in_another_room() -> None:
    view = OutputView()
    async with staged(view, (60, 12)) as (_, pilot):
        view.add("".join(f"{number} {'x' * 70}\n" for number in range(200)))
        await pilot.pause()
        view.following = False
        top = next(at for at, row in enumerate(view.rows) if row.startswith("150 "))
        view.scroll_to(y=top, animate=False, force=True, immediate=True)
        await pilot.pause()
        for width in (30, 100, 60):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
            assert view.rows[view.scroll_offset.y].startswith("150 ")
