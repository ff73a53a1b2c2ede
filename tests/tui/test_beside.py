"""Details beside a list or below it, and the move between both places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from mcpdesk.link.link import Link
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.screens.clients import ClientsPane
from mcpdesk.tui.screens.log_list import LogList
from mcpdesk.tui.screens.logs import LogsPane
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets.beside import MIN_WIDTH_BESIDE, DetailState
from tests.support.activity import job, link_with
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.patience import screen_lines, until

NARROW, WIDE = MIN_WIDTH_BESIDE - 1, MIN_WIDTH_BESIDE


@asynccontextmanager
async def shown(
    screen: str, width: int, link: FakeLink | None = None
) -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    """A desk that shows one of its screens."""
    link = link or link_with(job("make all"))
    link.asked = []
    app = DeskApp(cast(Link, link))
    async with driven(app, size=(width, 30)) as pilot:
        await until(lambda: app.main.pane is not None, pilot)
        await app.main.show_screen(screen)
        await until(lambda: app.main.shown == screen, pilot)
        yield app, pilot


def is_beside(rows: Widget, detail: Widget) -> bool:
    return rows.region.right <= detail.region.x and rows.region.y <= detail.region.bottom


def is_below(rows: Widget, detail: Widget) -> bool:
    return rows.region.x == detail.region.x and rows.region.bottom <= detail.region.y


def parts(app: DeskApp, screen: str) -> tuple[Widget, Widget]:
    """List and details of a screen."""
    pane = app.main.pane
    assert pane is not None
    if isinstance(pane, LogsPane):
        return pane.query_one(LogList), pane.query_one("VerticalScroll")
    scope = pane.sections["jobs"] if isinstance(pane, ActivityPane) else pane
    return scope.query_one("LineList"), scope.query_one(".detail")


@pytest.mark.slow
@pytest.mark.parametrize("screen", ["activity", "clients", "servers", "logs"])
async def test_details_are_beside_the_list_from_the_limit_on_and_move_with_the_width(screen: str) -> None:
    async with shown(screen, WIDE) as (app, pilot):
        rows, detail = parts(app, screen)
        await until(lambda: is_beside(rows, detail) and detail.region.height > 5, pilot)
        assert rows.region.width > detail.region.width > WIDE // 3
        await pilot.resize_terminal(NARROW, 30)
        if screen == "logs":
            await until(lambda: not detail.display and rows.region.width == NARROW, pilot)
            await pilot.press("enter")
        await until(lambda: detail.display and is_below(rows, detail), pilot)
        await pilot.resize_terminal(WIDE + 40, 30)
        await until(lambda: is_beside(rows, detail), pilot)


@pytest.mark.slow
async def test_selection_focus_and_scroll_position_of_a_client_survive_the_move() -> None:
    async with shown("clients", NARROW) as (app, pilot):
        pane = cast(ClientsPane, app.main.pane)
        rows, detail = parts(app, "clients")
        await until(lambda: len(pane.rows) > 1, pilot)
        await pilot.press("down", "up")
        selected = pane.listing.selected
        detail.focus()
        await pilot.resize_terminal(NARROW, 12)
        await until(lambda: detail.max_scroll_y >= 2, pilot)
        detail.scroll_to(y=2, animate=False)
        await until(lambda: detail.scroll_y == 2, pilot)
        for width in (WIDE, NARROW):
            await pilot.resize_terminal(width, 12)
            await until(lambda width=width: rows.display is (width == WIDE), pilot)  # type: ignore[misc]
            await until(lambda: detail.display and (not rows.display or is_beside(rows, detail)), pilot)
            assert pane.listing.selected == selected and app.focused is detail and detail.scroll_y == 2


@pytest.mark.slow
async def test_the_filter_that_is_typed_survives_the_move() -> None:
    async with shown("logs", NARROW) as (app, pilot):
        pane = cast(LogsPane, app.main.pane)
        await pilot.press("slash", *"orders")
        for width in (WIDE, NARROW, WIDE):
            await pilot.resize_terminal(width, 30)
            await until(lambda width=width: pane.has_class("-beside") is (width == WIDE), pilot)  # type: ignore[misc]
            assert app.focused is pane.filter_field and pane.filter_field.value == "orders"
            assert {line.source for line in pane.listing.entries} == {"orders"}


@pytest.mark.slow
async def test_details_of_a_log_line_follow_the_cursor_and_enter_closes_them() -> None:
    async with shown("logs", WIDE) as (app, pilot):
        rows, detail = parts(app, "logs")
        await until(lambda: detail.display and "KeyError" in app_text(app), pilot)
        await pilot.press("home")
        await until(lambda: "3 tools, 4 resources" in side_text(app, detail), pilot)
        await pilot.press("enter")
        await until(lambda: not detail.display and rows.region.width == WIDE, pilot)
        await pilot.press("enter")
        await until(lambda: is_beside(rows, detail), pilot)
        await pilot.resize_terminal(NARROW, 30)  # a line was selected, so its details stay
        await until(lambda: is_below(rows, detail), pilot)


def app_text(app: DeskApp) -> str:
    return "\n".join(screen_lines(app))


def side_text(app: DeskApp, side: Widget) -> str:
    """Characters on the screen inside a widget, one line after the other without wrapping."""
    region = side.region
    lines = app_text(app).splitlines()[region.y : region.bottom]
    return " ".join(" ".join(line[region.x : region.right] for line in lines).split())


def test_details_are_open_beside_the_list_until_they_are_closed() -> None:
    state = DetailState()
    assert not state.is_open
    state.move(is_beside=True, are_in_use=False)
    assert state.is_open
    state.move(is_beside=False, are_in_use=False)
    assert not state.is_open
    state.move(is_beside=True, are_in_use=False)
    state.move(is_beside=False, are_in_use=True)
    assert state.is_open, "what is read stays in sight"
    state.close()
    assert not state.is_open
    state.move(is_beside=True, are_in_use=False)
    assert state.is_open, "what was closed below the list is open beside it"
    state.close()
    assert not state.is_open
    state.move(is_beside=False, are_in_use=False)
    state.move(is_beside=True, are_in_use=False)
    assert not state.is_open
    state.reset()
    assert state.is_open
    state.move(is_beside=False, are_in_use=False)
    state.open()
    assert state.is_open


@pytest.mark.slow
async def test_details_of_an_exchange_are_beside_the_list_and_follow_the_cursor() -> None:
    async with shown("traffic", WIDE) as (app, pilot):
        pane = cast(TrafficPane, app.main.pane)
        rows, detail = pane.listing, pane.detail
        await until(lambda: is_beside(rows, detail) and detail.shown_exchange is not None, pilot)
        assert rows.region.width > detail.region.width > WIDE // 3
        for key in ("home", "down"):
            await pilot.press(key)
            await until(
                lambda: detail.shown_exchange is not None and detail.shown_exchange.number == rows.selected,
                pilot,
            )
        await pilot.press("escape")
        await until(lambda: not detail.display and rows.region.width == WIDE, pilot)
        await pilot.press("enter")
        await until(lambda: is_beside(rows, detail), pilot)


@pytest.mark.slow
async def test_the_newest_exchange_is_shown_while_the_list_follows_and_reading_it_stops_that() -> None:
    async with shown("traffic", WIDE) as (app, pilot):
        link, pane = app.main.link, cast(TrafficPane, app.main.pane)
        rows, detail = pane.listing, pane.detail
        for _ in range(3):
            link.request("profiles", "tools/call", {"name": "user-profile"})
        await until(lambda: len(rows.lines) > 3 and rows.selected == rows.lines[-1], pilot)
        await until(
            lambda: detail.shown_exchange is not None and detail.shown_exchange.number == rows.selected, pilot
        )
        detail.focus_first()
        await until(lambda: not rows.following, pilot)
        before = detail.shown_exchange
        link.request("profiles", "tools/call", {"name": "user-profile"})
        await until(lambda: rows.selected != rows.lines[-1], pilot)
        assert detail.shown_exchange is before


@pytest.mark.slow
async def test_details_that_are_read_stay_as_they_are_when_they_move() -> None:
    async with shown("traffic", WIDE) as (app, pilot):
        pane = cast(TrafficPane, app.main.pane)
        await pilot.press("home", "enter")
        await until(lambda: pane.detail.has_focus_within, pilot)
        focused, number = app.focused, pane.listing.selected
        assert isinstance(focused, JsonTree)
        for width in (NARROW, WIDE, NARROW):
            await pilot.resize_terminal(width, 30)
            place = is_beside if width == WIDE else is_below
            await until(lambda place=place: place(pane.listing, pane.detail), pilot)  # type: ignore[misc]
            assert app.focused is focused and pane.listing.selected == number
            assert pane.detail.shown_exchange is not None and pane.detail.shown_exchange.number == number


@pytest.mark.slow
async def test_details_of_the_newest_exchange_are_hidden_in_a_narrow_pane() -> None:
    async with shown("traffic", WIDE) as (app, pilot):
        pane = cast(TrafficPane, app.main.pane)
        await until(lambda: is_beside(pane.listing, pane.detail), pilot)
        await pilot.resize_terminal(NARROW, 30)
        await until(lambda: not pane.detail.display and pane.listing.region.width == NARROW, pilot)
        await pilot.resize_terminal(WIDE, 30)
        await until(lambda: is_beside(pane.listing, pane.detail), pilot)
