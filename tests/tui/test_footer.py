"""The bottom line follows the focus."""

from __future__ import annotations

import pytest

from mcpdesk.tui.screens.frame_lines import DeskFooter
from tests.support.frame import running_frame


async def test_own_keys_of_the_focused_pane_come_first() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        words = app.main.query_one(DeskFooter).render().plain.split()
        assert words[:4] == ["/", "filter", "l", "level"]
        assert words[-4:] == ["^p", "palette", "?", "help"]


async def test_keys_that_would_be_typed_are_not_shown_in_an_input() -> None:
    async with running_frame() as (app, pilot):
        app.main.query_one("#field").focus()
        await pilot.pause()
        words = app.main.query_one(DeskFooter).render().plain.split()
        assert "?" not in words and "f1" in words


@pytest.mark.parametrize("width", [40, 80, 200])
async def test_palette_and_help_stay_at_any_width(width: int) -> None:
    async with running_frame(size=(width, 30)) as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        text = app.main.query_one(DeskFooter).render().plain
        assert len(text) <= width and "palette" in text and "help" in text


async def test_click_presses_the_key() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        footer = app.main.query_one(DeskFooter)
        await pilot.click(DeskFooter, offset=(footer.render().plain.index("help"), 0))
        await pilot.pause()
        assert type(app.screen).__name__ == "HelpScreen"
