"""The palette: context first, then the table, tools, themes."""

from __future__ import annotations

from mcpdesk.link.values import ItemKind
from mcpdesk.tui.palette import action_choices, item_choices, theme_choices
from mcpdesk.tui.screens.logs import LogList
from mcpdesk.tui.widgets.menu import Menu
from tests.support.frame import StubPane, running_frame


async def test_what_the_focused_pane_can_do_comes_first() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        groups = [choice.hint for choice in action_choices(app)]
        assert groups[0] == "Logs" and groups.index("Desk") > groups.count("Logs") - 1


async def test_working_items_can_be_called_by_name() -> None:
    async with running_frame() as (app, _):
        labels = [choice.label for choice in item_choices(app)]
        assert "call user-profile" in labels and "read resource://clock" in labels
        assert "render summarize" in labels and "call send-mail" not in labels


async def test_calling_an_item_leads_to_the_workbench() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "ctrl+p", *"call place", "enter")
        await pilot.pause()
        pane = app.main.pane
        assert isinstance(pane, StubPane) and pane.opened == [(ItemKind.TOOL, "place-order")]


async def test_action_runs_on_the_widget_that_has_it() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        await pilot.press("ctrl+p", *"follow", "enter")
        await pilot.pause()
        assert app.screen is app.main and not app.main.query_one(LogList).following


async def test_theme_can_be_put_on_by_name() -> None:
    async with running_frame() as (app, pilot):
        assert {"theme night", "theme nord"} <= {choice.label for choice in theme_choices(app)}
        await pilot.press("ctrl+p", *"theme forest", "enter")
        await pilot.pause()
        assert app.theme == "forest"


async def test_escape_does_nothing_and_a_second_palette_never_opens() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+p", "ctrl+p")
        assert sum(isinstance(screen, Menu) for screen in app.screen_stack) == 1
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


async def test_palette_without_a_server_offers_no_items() -> None:
    async with running_frame() as (app, _):
        app.main.server = ""
        assert not list(item_choices(app))
