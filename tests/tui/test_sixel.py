"""Rows of sixels, and what becomes of them when the screen cuts lines up."""

from __future__ import annotations

import re

import pytest
from rich.console import Console
from rich.style import Style

from mcpdesk.tui.results.picture_drawing import SixelStrip, sixel_rows
from tests.support.pictures import two_halves

CONSOLE = Console(color_system="truecolor")


def strip() -> SixelStrip:
    return SixelStrip("\x1bPq~\x1b\\", 4, 10, Style())


def test_each_row_of_cells_is_a_picture_of_its_own() -> None:
    rows = list(sixel_rows(two_halves(40, 50), 20))
    sizes = [re.match(r'\x1bP[0-9;]*q"1;1;(\d+);(\d+)', row) for row in rows]
    assert [size and size.groups() for size in sizes] == [("40", "20"), ("40", "20"), ("40", "10")]
    for row in rows:
        assert ";2;100;0;0" in row and ";2;0;0;100" in row
        assert row.endswith("\x1b\\")


def test_a_row_is_drawn_over_blanks_where_the_cursor_is() -> None:
    assert strip().render(CONSOLE) == "\x1b7" + " " * 10 + "\x1b8\x1bPq~\x1b\\\x1b8\x1b[10C"
    assert strip().text == " " * 10


@pytest.mark.parametrize(
    ("cuts", "drawn"),
    [([10], [True]), ([6, 10], [True, False]), ([4, 10], [True, False]), ([3, 10], [False, False])],
)
def test_what_lies_over_a_row_leaves_blanks_of_it(cuts: list[int], drawn: list[bool]) -> None:
    pieces = strip().divide(cuts)
    assert [isinstance(piece, SixelStrip) for piece in pieces] == drawn
    assert [piece.cell_length for piece in pieces] == [
        end - start for start, end in zip([0, *cuts], cuts, strict=False)
    ]


def test_a_part_that_is_drawn_anew_draws_the_row() -> None:
    assert strip().crop(0, 10).cell_length == 10
    part = strip().crop(0, 2)
    assert isinstance(part, SixelStrip) and part.cell_length == 2
    assert not isinstance(strip().crop(2, 8), SixelStrip)
    assert strip().crop(2).cell_length == 8
