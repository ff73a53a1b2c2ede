"""The scripts that draw the pictures still find their way through the program."""

from __future__ import annotations

import pytest

from tests.support.picture import EVERY_SCREEN, PICTURE, SCREENS, SIZES, draw, draw_screens, screen_file


@pytest.mark.slow
async def test_picture_is_drawn_from_the_running_program() -> None:
    drawn = (await draw(port=0)).replace("&#160;", " ")
    kept = PICTURE.read_text().replace("&#160;", " ")
    for words in ("plan-trip", "3 days in Lisbon", "notebook 2.1", "withdraw-cash", "Workbench"):
        assert words in drawn
        assert words in kept


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_every_screen_is_drawn_at_every_size(size: tuple[int, int]) -> None:
    async for name, words, drawn in draw_screens(size):
        kept = screen_file(name, size).read_text().replace("&#160;", " ")
        assert drawn.startswith("<svg") and [each for each in words if each not in kept] == [], name


def test_there_is_a_picture_of_every_screen_and_no_other() -> None:
    names = {screen_file(name, size).name for name, *_ in EVERY_SCREEN for size in SIZES}
    assert {path.name for path in SCREENS.iterdir()} == names
