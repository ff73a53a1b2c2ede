"""A name is asked for in one line."""

from __future__ import annotations

import pytest

from mcpdesk.tui.widgets.dialog import LONGEST, NamePrompt
from tests.support.frame import running_frame


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (["m", "e", "space", "enter"], "me"),
        (["m", "escape"], ""),
        (["enter"], ""),
        (["x"] * (LONGEST + 5) + ["enter"], "x" * LONGEST),
    ],
    ids=["trimmed", "closed", "empty", "long"],
)
async def test_it_ends_with_the_name(keys: list[str], name: str) -> None:
    async with running_frame() as (app, pilot):
        given: list[str | None] = []
        app.push_screen(NamePrompt("Keep as"), given.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert given == [name]
