"""Actions chosen in the action menu, as a person does it."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from mcpdesk.tui.screens.action_menu import ActionMenu
from tests.support.patience import until


async def choose_action(pilot: Pilot[Any], title: str) -> None:
    """Open the menu, type the title of an action, and choose the action."""
    app = pilot.app
    await pilot.press("space")
    await until(lambda: isinstance(app.screen, ActionMenu) and app.screen.is_mounted, pilot)
    menu = app.screen
    assert isinstance(menu, ActionMenu)
    await pilot.press(*("space" if letter == " " else letter for letter in title))
    await until(lambda: menu.listing.selected is not None and menu.listing.selected.label == title, pilot)
    await pilot.press("enter")
    await until(lambda: app.screen is not menu, pilot)
