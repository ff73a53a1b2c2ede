"""Every screen and dialog of the running program can be reached by keys, and is whole at three sizes."""

from __future__ import annotations

import pytest

from tests.support.picture import EVERY_SCREEN, visit_screens
from tests.support.screens import SIZES


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_every_screen_is_reached_and_shows_its_words_at_every_size(size: tuple[int, int]) -> None:
    names = [name async for name, _ in visit_screens(size)]
    assert names == [name for name, *_ in EVERY_SCREEN]
