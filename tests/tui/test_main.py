"""The main screen: tabs, panes mounted at their first visit, focus, servers, zoom, jump."""

from __future__ import annotations

import asyncio

from textual.widgets import ContentSwitcher

from mcpdesk.inbox.question import Page
from mcpdesk.tui.screens.main_screen import MainScreen
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.tabs import SCREENS, DeskTabs
from tests.support.frame import quiet_link, running_frame, toasts


async def test_panes_are_mounted_at_their_first_visit() -> None:
    async with running_frame() as (app, pilot):
        switcher = app.main.query_one(ContentSwitcher)
        assert [child.id for child in switcher.children] == ["workbench"]
        for action, name in zip(SCREENS.values(), SCREENS, strict=True):
            await pilot.press(action.keys)
            await pilot.pause()
            assert app.main.shown == name and app.main.pane is not None and app.main.pane.display
        assert [child.id for child in switcher.children] == list(SCREENS)


async def test_a_pane_that_is_asked_for_twice_at_once_is_mounted_once() -> None:
    async with running_frame() as (app, _):
        await asyncio.gather(app.main.show_screen("activity"), app.main.show_screen("activity"))
        switcher = app.main.query_one(ContentSwitcher)
        assert [child.id for child in switcher.children] == ["workbench", "activity"]


async def test_tabs_can_be_clicked_and_show_where_one_is() -> None:
    async with running_frame() as (app, pilot):
        tabs = app.main.query_one(DeskTabs)
        await pilot.click(DeskTabs, offset=(tabs.render().plain.index("Clients"), 0))
        await pilot.pause()
        assert app.main.shown == "clients"
        current = [part for part in tabs.parts if part.rank == 99]
        assert [part.text.plain.strip() for part in current] == ["4 Clients"]


async def test_tab_of_the_inbox_counts_what_waits() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        app.main.query_one("#field").focus()
        await pilot.pause()
        link.ask(Page("one?"))
        link.ask(Page("two?"))
        app.main.refresher.refresh()
        await pilot.pause()
        assert "3 Activity ?2" in app.main.query_one(DeskTabs).render().plain


async def test_something_that_is_no_input_has_the_focus_at_first() -> None:
    async with running_frame() as (app, _):
        assert app.focused is not None and app.focused.id == "go"


async def test_focus_returns_to_where_it_was_in_a_pane() -> None:
    async with running_frame() as (app, pilot):
        app.main.query_one("#workbench #field").focus()
        await pilot.pause()
        await app.main.show_screen("clients")
        await app.main.show_screen("workbench")
        await pilot.pause()
        assert app.focused is app.main.query_one("#workbench #field")


async def test_digits_are_typed_inside_inputs() -> None:
    async with running_frame() as (app, pilot):
        field = app.main.query_one("#field")
        field.focus()
        await pilot.press("2", "t", "question_mark", "z")
        assert field.value == "2t?z" and app.main.shown == "workbench"


async def test_zoom_gives_a_pane_the_screen_and_takes_it_back() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "z")
        await pilot.pause()
        assert app.main.maximized is not None
        assert app.main.maximized.size == (120, 38) and app.main.header.region.y == 0
        await pilot.press("z")
        assert app.main.maximized is None
        await pilot.press("z", "1")
        await pilot.pause()
        assert app.main.maximized is None and app.main.shown == "workbench"


async def test_another_server_can_be_picked() -> None:
    async with running_frame() as (app, pilot):
        assert app.server == "profiles"
        await pilot.press("S")
        assert isinstance(app.screen, Menu)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.server == "hello" and isinstance(app.screen, MainScreen)


async def test_url_is_copied() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        await pilot.press("u")
        await pilot.pause()
        assert app.clipboard == "http://127.0.0.1:3333/mcp/profiles"
        assert toasts(app) == ["copied http://127.0.0.1:3333/mcp/profiles"]
        app.main.server = "nowhere"
        app.main.action_copy_url()
        await pilot.pause()
        assert "no URL" in toasts(app)[-1]


async def test_reload_asks_the_core() -> None:
    link = quiet_link()
    async with running_frame(link) as (_, pilot):
        await pilot.press("f5")
        assert link.reloads == ["profiles"]


async def test_panes_are_told_how_much_room_there_is() -> None:
    async with running_frame(size=(80, 24)) as (app, pilot):
        assert {"-narrow", "-low"} <= app.main.classes
        await pilot.resize_terminal(200, 60)
        await pilot.pause()
        assert {"-wide", "-tall"} <= app.main.classes
