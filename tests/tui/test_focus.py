"""Keys reach only visible widgets: the focus at every size of the terminal, on every screen."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.main_screen import PANES
from tests.support.frame import quiet_link, running_frame
from tests.support.patience import until

pytestmark = pytest.mark.slow
SIZES = ((30, 8), (40, 10), (80, 24), (50, 8), (120, 40), (39, 60), (200, 60))
KEYS = ("tab", "z", "tab", "slash", "escape", "z", "shift+tab")
"""Keys that move the focus, in an order that leaves no dialog open."""


def is_in_sight(app: DeskApp) -> bool:
    """True if the focus of the main screen is in the shown pane, or absent while the screen is too small."""
    focused, pane = app.main.focused, app.main.pane
    if app.main.has_class("-too-small"):
        return focused is None
    return (
        focused is not None
        and pane in focused.ancestors_with_self
        and all(one.display for one in focused.ancestors_with_self)
        and focused.is_on_screen
    )


async def settle(app: DeskApp, pilot: Pilot[None], where: object) -> None:
    """Wait until the focus is on a visible widget."""
    try:
        await until(lambda: is_in_sight(app), pilot)
    except TimeoutError:
        raise AssertionError(f"{where}: the focus is on {app.main.focused!r}") from None


@pytest.mark.parametrize("number", range(1, 7))
async def test_the_focus_is_on_a_widget_that_is_shown_at_every_size(number: int) -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        await pilot.press(str(number))
        await settle(app, pilot, number)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(app, pilot, size)
            for key in KEYS:
                await pilot.press(key)
                while app.screen is not app.main:
                    await pilot.press("escape")
                    await pilot.pause()
                await settle(app, pilot, (size, key))


@pytest.mark.parametrize("has_dialog", [False, True])
@pytest.mark.parametrize("number", [2, 5])
async def test_a_window_that_is_too_small_for_a_moment_gives_the_focus_back(
    number: int, has_dialog: bool
) -> None:
    link = quiet_link()
    async with running_frame(link, panes=PANES) as (app, pilot):
        await pilot.press(str(number))
        await settle(app, pilot, number)
        before, called = app.main.focused, len(link.calls)
        if has_dialog:
            await pilot.press("ctrl+p")
        await pilot.resize_terminal(50, 8)
        await pilot.pause()
        await pilot.press("ctrl+r")
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        if has_dialog:
            await pilot.press("escape")
        await settle(app, pilot, number)
        assert app.main.focused is before
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert len(link.calls) == called


async def test_a_widget_of_a_pane_that_is_not_shown_has_the_focus_at_its_next_visit() -> None:
    async with running_frame() as (app, pilot):
        hidden = app.main.query_one("#workbench #field", Widget)
        await pilot.press("2")
        await settle(app, pilot, "traffic")
        hidden.focus()
        await settle(app, pilot, "traffic, after the focus was asked for")
        await pilot.press("x")
        await pilot.pause()
        assert app.main.shown == "traffic"
        await app.main.show_screen("workbench")
        await pilot.pause()
        assert app.main.focused is hidden


async def test_focusing_a_widget_beside_the_maximized_part_ends_the_larger_view() -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        await pilot.press("ctrl+r")
        result = app.main.query("ResultView").first()
        app.main.maximize(result)
        await pilot.pause()
        app.main.query("CatalogueList").first().focus()
        await pilot.pause()
        assert app.main.maximized is None
        await settle(app, pilot, "catalogue")
