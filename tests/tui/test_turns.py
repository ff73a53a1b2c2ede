"""List and details that take turns on a small screen: Clients, Servers, Activity and the workbench."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widget import Widget

from mcpdesk.inbox.question import QuestionState
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.screens.frame_lines import MAX_KEYS, DeskFooter
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.widgets.beside import ListWithDetails
from tests.support.activity import callback, job, link_with
from tests.support.fake_link import FakeLink
from tests.support.frame import running_frame
from tests.support.patience import screen_lines, until

pytestmark = pytest.mark.slow
SMALL = (80, 24)
SCREENS = ("workbench", "clients", "servers", "activity/inbox", "activity/jobs", "activity/callbacks")


def busy_link() -> FakeLink:
    """Sample data with an ended question, a job and a callback."""
    asked = FakeLink().asked
    link = link_with(job("make all"), callback(1))
    link.asked = [
        replace(question, state=QuestionState.ANSWERED, ended=question.asked + 1) for question in asked
    ]
    return link


@asynccontextmanager
async def shown(
    screen: str, size: tuple[int, int] = SMALL
) -> AsyncIterator[tuple[DeskApp, Pilot[None], ListWithDetails]]:
    """A desk that shows a screen, or a section of Activity, with the focus in its list."""
    async with running_frame(busy_link(), size=size, panes=PANES) as (app, pilot):
        await until(lambda: app.main.pane is not None, pilot)
        name, _, section = screen.partition("/")
        await app.main.show_screen(name)
        pane = app.main.pane
        if isinstance(pane, ActivityPane):
            activity = pane
            await until(lambda: activity._has_chosen_section, pilot)
            await app.main.action_show_part(section)
            await until(lambda: activity.shown == section, pilot)
            pane = activity.section
        assert isinstance(pane, ListWithDetails)
        if isinstance(pane, WorkbenchPane):
            await until(lambda: pane.draft is not None, pilot)
        listing(pane).focus()
        await pilot.pause()
        yield app, pilot, pane


def listing(pane: ListWithDetails) -> Widget:
    return pane.catalogue.rows if isinstance(pane, WorkbenchPane) else pane.query_one("LineList.list-part")


def detail(pane: ListWithDetails) -> Widget:
    return pane.query_one(".detail-part")


def keys(app: DeskApp) -> list[str]:
    """Keys in the footer."""
    parts = app.main.query_one(DeskFooter).parts
    return [part.action.removeprefix("press('").removesuffix("')") for part in parts]


def footer(app: DeskApp) -> str:
    return app.main.query_one(DeskFooter).render().plain


@pytest.mark.parametrize("screen", SCREENS)
async def test_enter_opens_the_details_over_the_list_and_escape_leads_back(screen: str) -> None:
    async with shown(screen) as (app, pilot, pane):
        rows = listing(pane)
        await until(lambda: rows.region.height > 12 and rows.region.width > 76, pilot)
        assert not detail(pane).display and "esc to the" not in footer(app)
        await pilot.press("enter")
        await until(lambda: detail(pane).has_focus_within and detail(pane).region.height > 12, pilot)
        assert not any(part.display for part in pane.query(".list-part"))
        back = "esc to the catalogue" if screen == "workbench" else "esc to the list"
        await until(lambda: back in footer(app), pilot)
        await pilot.press("escape")
        await until(lambda: app.focused is rows and rows.region.height > 12, pilot)
        assert not detail(pane).display
        await until(lambda: "esc to the" not in footer(app), pilot)


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("is_open", [False, True], ids=["list", "details"])
async def test_every_key_in_the_footer_of_a_small_screen_does_something(screen: str, is_open: bool) -> None:
    async with shown(screen) as (app, pilot, pane):
        for place in range(MAX_KEYS):
            if is_open:
                await pilot.press("enter")
                await until(lambda: detail(pane).has_focus_within, pilot)
                await pilot.pause()
            names = keys(app)
            assert len(names) <= MAX_KEYS and len(screen_lines(app)[-1].rstrip()) <= SMALL[0]
            if place >= len(names):
                break
            before = look(app)
            await pilot.press(*names[place].split())
            try:
                await until(partial(is_changed, app, before), pilot)
            except AssertionError as error:
                raise AssertionError(f"{names[place]} is in the footer and does nothing") from error
            while app.screen is not app.main:
                await pilot.press("escape")
            name, _, section = screen.partition("/")
            await (app.main.action_show_part(section) if section else app.main.show_screen(name))
            listing(pane).focus()
            await until(lambda: app.focused is listing(pane), pilot)


def look(app: DeskApp) -> object:
    shown = "\n".join(screen_lines(app))
    return app.screen, app.focused, shown, len(app.news_log), app.clipboard


def is_changed(app: DeskApp, before: object) -> bool:
    return look(app) != before


@pytest.mark.parametrize("screen", SCREENS)
async def test_the_part_with_the_focus_stays_when_the_screen_becomes_small(screen: str) -> None:
    async with shown(screen, (120, 40)) as (app, pilot, pane):
        rows = listing(pane)
        await until(lambda: rows.region.height > 0 and detail(pane).region.height > 0, pilot)
        await pilot.resize_terminal(*SMALL)
        await until(lambda: pane.hides_details, pilot)
        assert app.focused is rows
        await pilot.press("enter")
        await until(lambda: pane.hides_list, pilot)
        focused = app.focused
        await pilot.resize_terminal(120, 40)
        await until(lambda: rows.region.height > 0 and detail(pane).region.height > 0, pilot)
        assert app.focused is focused
        await pilot.resize_terminal(*SMALL)
        await until(lambda: pane.hides_list and detail(pane).region.height > 12, pilot)
        assert app.focused is focused


async def test_a_key_typed_right_after_enter_reaches_the_details() -> None:
    async with shown("clients") as (app, pilot, _):
        await pilot.press("enter", "enter")
        await until(lambda: app.main.shown == "traffic", pilot)
    async with shown("workbench") as (_, pilot, pane):
        assert isinstance(pane, WorkbenchPane)
        await pilot.press("enter", "7")
        await until(lambda: "7" in str(pane.arguments.value()), pilot)


async def test_a_call_from_the_catalogue_shows_the_item() -> None:
    async with shown("workbench") as (_, pilot, pane):
        assert isinstance(pane, WorkbenchPane)
        await pilot.press("ctrl+r")
        await until(lambda: pane.hides_list and pane.item_pane.has_focus_within, pilot)


async def test_the_catalogue_has_room_for_descriptions() -> None:
    async with shown("workbench") as (app, pilot, pane):
        assert isinstance(pane, WorkbenchPane)
        assert pane.item is not None
        words = " ".join(pane.item.description.split()[:2])
        await until(lambda: any(line.find(words) > 10 for line in screen_lines(app)), pilot)


async def test_details_whose_row_the_filter_removes_return_to_the_list() -> None:
    async with shown("activity/jobs") as (app, pilot, pane):
        await pilot.press("enter")
        await until(lambda: pane.hides_list, pilot)
        link = app.main.link
        assert isinstance(link, FakeLink)
        link.job_list = []
        link.works()
        app.main.refresher.refresh()
        await until(lambda: not detail(pane).has_focus_within and not pane.hides_list, pilot)
