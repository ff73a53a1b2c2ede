"""The action menu: everything that can be done with the selected item, most used first."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from mcpdesk.tui.actions import BY_ID, Reachable
from mcpdesk.tui.screens.action_menu import ActionMenu, action_choices
from tests.support.frame import quiet_link, running_frame
from tests.support.patience import until


@pytest.mark.slow
@pytest.mark.parametrize(("screen", "digit"), [("clients", "4"), ("logs", "5"), ("statistics", "6")])
async def test_space_opens_the_actions_of_the_focused_pane_and_enter_runs_one(
    screen: str, digit: str
) -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await pilot.press(digit, "space")
        await until(lambda: isinstance(app.screen, ActionMenu), pilot)
        choices = app.screen.query_one("ChoiceList").rows  # type: ignore[attr-defined]
        entries: list[Reachable] = [choice.value for choice in choices]
        assert entries[0].action.scope == screen and entries[0].action.footer
        ids = {entry.action.id for entry in entries}
        enabled = {one for one in BY_ID if one.startswith(f"{screen}.")} & ids
        assert {f"{screen}.copy", f"{screen}.filter"} <= enabled
        assert {"main.zoom", "app.ask_quit"} <= ids and "main.action_menu" not in ids
        await pilot.press(*"filter", "enter")
        await until(lambda: app.screen is app.main and app.focused is not None, pilot)
        assert app.main.pane is not None and app.main.pane.has_class("-filtering")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_complete_help_of_the_selected_action_is_below_the_list(size: tuple[int, int]) -> None:
    async with running_frame(quiet_link(), size=size) as (app, pilot):
        await pilot.press("6", "space")
        await until(lambda: isinstance(app.screen, ActionMenu) and app.screen.is_mounted, pilot)
        await pilot.pause()
        menu = app.screen
        assert isinstance(menu, ActionMenu)
        help, box = menu.query_one(".help", Static), menu.query_one(".box")
        assert len(menu.choices) > menu.listing.size.height, "the list is longer than its box"
        assert help.region.height == 2 and help.region.bottom < box.region.bottom
        chosen = menu.listing.selected
        assert chosen is not None and str(help.content) == chosen.help


@pytest.mark.slow
async def test_actions_of_the_pane_come_before_those_of_the_desk() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await pilot.press("6")
        await pilot.pause()
        entries = [choice.value for choice in action_choices(app.main)]
        scopes = [entry.action.scope for entry in entries]
        assert scopes.index("main") > max(at for at, one in enumerate(scopes) if one == "statistics")
        actions = [entry.action for entry in entries if entry.action.scope == "statistics"]
        footers = [("narrow" if one.footer else "wide" if one.wide else "none") for one in actions]
        assert footers == sorted(footers, key=["narrow", "wide", "none"].index)
        assert set(footers) == {"narrow", "wide", "none"}


async def test_space_in_a_field_is_text() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        field = app.main.query_one("#field")
        field.focus()
        await pilot.press("a", "space", "b")
        assert app.screen is app.main and getattr(field, "value", "") == "a b"
