"""The main screens look as they are stored, character by character and colour by colour, at three sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.features import needs_all_features
from tests.support.screen_text import Cell, ScreenText, difference, faint_words
from tests.support.screens import DIRECT, SIZES, STOPS, STORED, stored_path, visit_screens

LEAST_CONTRAST = 3.0
SHOWN_WHOLE = 3
"""Number of screens whose differences are shown; for the others, only the number of cells is."""


@needs_all_features
@pytest.mark.parametrize("name", DIRECT)
async def test_a_main_screen_looks_as_stored(name: str) -> None:
    await compare((120, 40), name)


@needs_all_features
@pytest.mark.slow
@pytest.mark.timeout(600)  # one of seventeen screens after the other
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_all_screens_look_as_stored(size: tuple[int, int]) -> None:
    await compare(size)


async def compare(size: tuple[int, int], only: str = "") -> None:
    different, faint = [], []
    async for drawn in visit_screens(size, only):
        if drawn.stored is None:
            different.append(f"{drawn.path.name} is missing")
        elif drawn.screen != drawn.stored:
            different.append(f"{drawn.path.name}: {difference(drawn.stored, drawn.screen)}")
        faint += [f"{drawn.name}, {words}" for words in faint_words(drawn.app, drawn.screen, LEAST_CONTRAST)]
    if different:
        shown = [*different[:SHOWN_WHOLE], *(each.splitlines()[0] for each in different[SHOWN_WHOLE:])]
        command = "If that is intended: python -m tests.support.screens_update"
        pytest.fail("\n\n".join((*shown, command)), pytrace=False)
    assert faint == []


def test_no_screen_is_stored_that_is_not_drawn() -> None:
    assert set(STORED.iterdir()) == {stored_path(stop.name, size) for stop in STOPS for size in SIZES}


def screen(*lines: str, style: str = "foreground on surface") -> ScreenText:
    return ScreenText(tuple(tuple(Cell(letter, style) for letter in line) for line in lines))


def test_a_stored_screen_is_read_as_it_was_written() -> None:
    wide, plain = screen("│ xx |", "      ").lines
    marked = Cell("世", "bold error on #102030")
    stored = ScreenText((wide, (*plain[:2], marked, replace(marked, letter=""), *plain[4:]), plain, plain))
    assert ScreenText.decode(stored.encode()) == stored
    assert stored.size == (6, 4)
    assert stored.encode().splitlines()[1] == "  1 |  世  |"


def test_a_difference_marks_the_changed_cells_and_names_the_styles() -> None:
    before, after = screen("one two", "three  "), screen("one tin", "three  ")
    assert difference(before, before) == ""
    assert difference(before, after).splitlines() == [
        "2 cells in 1 of 2 lines",
        "line   0 - |one two|",
        "         + |one tin|",
        "                 ^^",
    ]
    styled = ScreenText((after.lines[0], *screen("three  ", style="error on surface").lines))
    assert difference(after, styled).splitlines() == [
        "5 cells in 1 of 2 lines",
        "line   1   |three  |",
        "            ^^^^^",
        "           columns 0-4: foreground on surface -> error on surface",
    ]


def test_a_difference_is_short_however_much_has_changed() -> None:
    before = screen(*("x" * 200 for _ in range(60)))
    after = screen(*("y" * 200 for _ in range(60)), style="error on surface")
    assert len(difference(before, after)) < 10_000
    assert difference(before, screen("x")) == "stored 200 x 60, drawn 1 x 1"
