"""How many cells a picture takes."""

from __future__ import annotations

import pytest

from mcpdesk.tui.results.terminal_graphics import MAX_SIXEL_PIXELS, Graphics, Kind

HALF, SIXEL, KITTY = (Graphics(kind) for kind in (Kind.HALF_BLOCKS, Kind.SIXEL, Kind.KITTY))


@pytest.mark.parametrize(
    ("graphics", "picture", "cells"),
    [
        (HALF, (200, 100), (40, 10)),
        (HALF, (100, 400), (15, 30)),
        (HALF, (20, 20), (20, 10)),
        (HALF, (1, 1), (16, 8)),
        (HALF, (10_000, 1), (40, 1)),
        (HALF, (1, 10_000), (1, 30)),
        (SIXEL, (200, 100), (20, 5)),
        (KITTY, (4000, 2000), (40, 10)),
        (SIXEL, (16, 16), (16, 8)),
    ],
)
def test_a_picture_keeps_its_proportions_within_the_room(
    graphics: Graphics, picture: tuple[int, int], cells: tuple[int, int]
) -> None:
    assert graphics.cells(*picture, 40, 30) == cells


def test_what_is_drawn_is_not_stretched_to_whole_cells() -> None:
    columns, rows = HALF.cells(800, 40, 60, 30)
    assert (columns, rows) == (60, 2)
    assert HALF.pixels(columns, rows) == (60, 4)
    assert HALF.within(800, 40, columns, rows) == (60, 3)
    assert SIXEL.within(300, 100, 20, 10) == (200, 67)


def test_unusual_cells_are_made_up_for() -> None:
    wide = Graphics(Kind.HALF_BLOCKS, (10, 10))
    assert wide.cells(100, 100, 40, 30) == (30, 30)
    assert wide.within(100, 100, 30, 30) == (30, 60)


def test_sixels_are_bounded() -> None:
    sharp = Graphics(Kind.SIXEL, (40, 80))
    columns, rows = sharp.cells(4000, 3000, 200, 60)
    width, height = sharp.pixels(columns, rows)
    assert MAX_SIXEL_PIXELS / 1.2 < width * height < MAX_SIXEL_PIXELS * 1.2
    assert Graphics(Kind.KITTY, (40, 80)).cells(4000, 3000, 200, 60)[1] == 38
