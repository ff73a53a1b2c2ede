"""Filter, select, copy and sort are the same in every pane with a list."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from textual.pilot import Pilot

from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import job, link_with
from tests.support.frame import running_frame
from tests.support.patience import screen_text, until

pytestmark = pytest.mark.slow


class ListPane(NamedTuple):
    """A pane, words that narrow its list to one row, a text of that row, and one of another row."""

    keys: tuple[str, ...]
    words: str
    stays: str
    goes: str
    has_columns: bool = False
    copies: bool = True


LIST_PANES = {
    "workbench": ListPane(("1",), "slow", "slow-report", "place-order", copies=False),
    "traffic": ListPane(("2",), "slow-report", "tools/call slow-report", "tools/list", has_columns=True),
    "jobs": ListPane(("3",), "pytest", "pytest -q", "make all"),
    "clients": ListPane(("4",), "cursor", "cursor 1.4", "claude-code 2.1", has_columns=True),
    "logs": ListPane(("5",), "book opened", "book opened", "left-pad"),
    "statistics": ListPane(("6",), "slow", "slow-report", "place-order", has_columns=True),
}


async def copied(app: DeskApp, pilot: Pilot[None]) -> str:
    """Text that `y` copies: the first choice, if there are several."""
    await pilot.press("y")
    if isinstance(app.screen, Menu):
        await pilot.press("enter")
    await until(lambda: app.screen is app.main, pilot)
    return app.clipboard


@pytest.mark.parametrize("name", LIST_PANES)
async def test_a_list_is_filtered_selected_copied_and_sorted(name: str) -> None:
    pane = LIST_PANES[name]
    async with running_frame(link_with(job("pytest -q"), job("make all")), panes=PANES) as (app, pilot):

        def shows(*texts: str, without: str = "") -> bool:
            screen = screen_text(app)
            return all(each in screen for each in texts) and not (without and without in screen)

        await pilot.press(*pane.keys)
        await until(lambda: shows(pane.stays, pane.goes), pilot)
        await pilot.press("/", *pane.words, "enter")
        await until(lambda: shows(pane.stays, without=pane.goes), pilot)
        if pane.copies:
            await pilot.press("home")
            assert pane.words in await copied(app, pilot)
        await pilot.press("escape")
        await until(lambda: shows(pane.stays, pane.goes), pilot)
        if pane.copies:
            await pilot.press("home")
            first = await copied(app, pilot)
            await pilot.press("end")
            assert await copied(app, pilot) != first
        if pane.has_columns:
            before = screen_text(app)
            await pilot.press("s")
            await until(lambda: isinstance(app.screen, Menu), pilot)
            await pilot.press("down", "enter")
            await until(lambda: app.screen is app.main, pilot)
            await until(lambda: arrow(screen_text(app)) not in ("", arrow(before)), pilot)


def arrow(screen: str) -> str:
    """The head of the column that a list is sorted by."""
    return next((word for word in screen.split() if word[-1] in "↑↓"), "")
