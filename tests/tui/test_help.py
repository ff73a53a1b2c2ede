"""The help screen is made from the table."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from mcpdesk.tui.screens.help import HelpScreen
from tests.support.frame import running_frame


async def test_focused_pane_comes_first_and_the_conventions_last() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "f1")
        assert isinstance(app.screen, HelpScreen)
        titles = [title for title, _ in app.screen.blocks]
        assert titles[0] == "Logs" and titles[-1] == "Everywhere" and len(titles) == len(set(titles))


@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "f1", "enter"])
async def test_help_closes_and_nothing_else_happens(key: str) -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark", key)
        await pilot.pause()
        assert app.is_running and app.screen is app.main


async def test_help_has_one_ground() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("question_mark")
        await pilot.pause()
        lines = [each.render_line(y) for each in app.screen.query(Static) for y in range(each.size.height)]
        assert len({segment.style.bgcolor for line in lines for segment in line if segment.style}) == 1


async def test_help_scrolls_where_it_does_not_fit() -> None:
    async with running_frame(size=(80, 16)) as (app, pilot):
        await pilot.press("5", "question_mark")
        await pilot.pause()
        box = app.screen.query_one("VerticalScroll")
        await pilot.press("j", "j")
        assert box.scroll_offset.y == 2
        await pilot.press("end")
        await pilot.pause()
        assert box.scroll_offset.y > 2
