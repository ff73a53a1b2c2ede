"""The help screen is made from the table."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from mcpdesk.tui.screens.help import HelpScreen, JumpScreen
from tests.support.frame import running_frame
from tests.support.widgets import until
from tests.support.workbench import bench, link_with, tool


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


async def test_a_letter_goes_to_its_widget() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        screen: object = app.screen
        assert isinstance(screen, JumpScreen)
        targets = {widget.id: letter for letter, widget in screen.targets.items()}
        assert set(targets) == {"field", "go"}
        await pilot.press(targets["field"])
        await pilot.pause()
        assert app.screen == app.main and app.focused is app.main.query_one("#field")


async def test_letters_stand_where_their_widgets_are() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, JumpScreen)
        labels = [label.region.offset for label in screen.query(".letter")]
        assert labels == [widget.region.offset for widget in screen.targets.values()]


async def test_what_is_scrolled_out_of_sight_has_no_letter() -> None:
    properties = {f"field{number}": {"type": "string"} for number in range(12)}
    form = link_with(tool("wide", {"type": "object", "properties": properties}))
    async with bench(form, size=(80, 24)) as it:
        first, *_, last = it.pane.query("#form Input")
        await it.pilot.press("ctrl+o")
        await it.until(lambda: isinstance(it.app.screen, JumpScreen))
        assert isinstance(it.app.screen, JumpScreen)
        lettered = it.app.screen.targets.values()
        assert first in lettered and last not in lettered


async def test_a_digit_shows_a_screen_and_other_keys_do_nothing() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o", "exclamation_mark", "4")
        await pilot.pause()
        assert app.screen == app.main and app.main.shown == "clients"


async def test_escape_stays_where_one_was() -> None:
    async with running_frame() as (app, pilot):
        await until(pilot, lambda: app.focused is not None)
        before = app.focused
        await pilot.press("ctrl+o", "escape")
        await pilot.pause()
        assert app.screen == app.main and app.focused is before
