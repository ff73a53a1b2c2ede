"""Jump mode: letters over everything that takes the focus."""

from __future__ import annotations

from mcpdesk.tui.screens.help import JumpScreen
from tests.support.frame import running_frame
from tests.support.widgets import until
from tests.support.workbench import bench, link_with, tool


async def test_a_letter_goes_to_its_widget() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        assert isinstance(app.screen, JumpScreen)
        targets = {widget.id: letter for letter, widget in app.screen.targets.items()}
        assert set(targets) == {"field", "go"}
        await pilot.press(targets["field"])
        await pilot.pause()
        assert app.screen is app.main and app.focused is app.main.query_one("#field")


async def test_letters_stand_where_their_widgets_are() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        labels = [label.region.offset for label in app.screen.query(".letter")]
        assert labels == [widget.region.offset for widget in app.screen.targets.values()]


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
        assert app.screen is app.main and app.main.shown == "clients"


async def test_escape_stays_where_one_was() -> None:
    async with running_frame() as (app, pilot):
        await until(pilot, lambda: app.focused is not None)
        before = app.focused
        await pilot.press("ctrl+o", "escape")
        await pilot.pause()
        assert app.screen is app.main and app.focused is before
