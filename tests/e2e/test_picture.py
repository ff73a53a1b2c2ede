"""The script that draws the README's picture still finds its way through the program."""

from __future__ import annotations

import pytest

from tests.support.picture import PICTURE, draw


@pytest.mark.slow
async def test_picture_is_drawn_from_the_running_program() -> None:
    drawn = (await draw(port=0)).replace("&#160;", " ")
    kept = PICTURE.read_text().replace("&#160;", " ")
    for words in ("plan-trip", "3 days in Lisbon", "notebook 2.1", "withdraw-cash", "Workbench"):
        assert words in drawn
        assert words in kept
