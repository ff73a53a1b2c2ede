"""The palette: groups, what a search finds, settings, and many servers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input

from mcpdesk.link.values import Catalogue, ItemKind, SettingView
from mcpdesk.tui.actions import SCREENS
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens import palette_dialog
from mcpdesk.tui.screens.log_list import LogList
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.palette import (
    action_choices,
    item_choices,
    other_choices,
    server_choices,
    setting_entry,
    theme_choices,
)
from mcpdesk.tui.screens.palette_dialog import Palette, SettingScreen
from mcpdesk.tui.screens.palette_index import Heading, PaletteEntry, PaletteIndex
from mcpdesk.tui.widgets.menu import Choice, Menu
from tests.support.fake_link import FakeLink, sample_catalogue
from tests.support.frame import StubPane, quiet_link, running_frame
from tests.support.patience import screen_text, until


def headings(lines: Sequence[Choice]) -> list[str]:
    return [line.label for line in lines if isinstance(line, Heading)]


def entries(lines: Sequence[Choice]) -> list[str]:
    return [line.label for line in lines if not isinstance(line, Heading)]


def all_entries(app: DeskApp) -> list[PaletteEntry]:
    """Everything that the palette offers."""
    settings = app.link.settings().result(0)
    return [
        *action_choices(app),
        *other_choices(app),
        *server_choices(app),
        *theme_choices(app),
        *item_choices(app),
        *(setting_entry(app, each) for each in settings),
    ]


def is_adding(palette: Palette) -> bool:
    """Whether entries are still read or searched."""
    return any(worker.node is palette and not worker.is_finished for worker in palette.workers)


async def search(app: DeskApp, pilot: Pilot[Any], words: str) -> Palette:
    """Open the palette if it is closed, and type these words instead of others."""
    if not isinstance(app.screen, Palette):
        await pilot.press("ctrl+p")
    await until(lambda: isinstance(app.screen, Palette) and app.screen.is_mounted, pilot)
    palette = app.screen
    assert isinstance(palette, Palette)
    palette.query_one(Input).value = words
    await pilot.pause()
    await until(lambda: f"│ {words}" in screen_text(app) and not is_adding(palette), pilot)
    return palette


async def test_the_actions_of_the_focused_pane_are_the_first_group_and_each_kind_has_its_own() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5", "ctrl+p")
        await until(lambda: isinstance(app.screen, Palette) and not is_adding(app.screen), pilot)
        assert isinstance(app.screen, Palette)
        lines = app.screen.listing.rows
        titles = headings(lines)
        assert titles[0] == "Logs" and titles.index("Desk") > 0
        kinds = ["Tools", "Resources", "Prompts", "Servers", "Settings", "Themes"]
        assert [each for each in titles if each in kinds] == kinds
        assert "user-profile" in entries(lines) and "send-mail" not in entries(lines)
        assert app.screen.listing.cursor == 1


@pytest.mark.slow
async def test_what_is_chosen_in_the_palette_is_done() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        await pilot.press("ctrl+p", *"follow", "enter")
        await pilot.pause()
        assert app.screen is app.main and not app.main.query_one(LogList).following
        await pilot.press("ctrl+p", *"theme forest", "enter")
        await pilot.pause()
        assert app.theme == "forest"
        await pilot.press("ctrl+p", *"hello", "enter")
        await until(lambda: app.server == "hello", pilot)
        await search(app, pilot, "place profiles")
        await pilot.press("enter")
        await until(lambda: app.main.shown == "workbench", pilot)
        pane = app.main.pane
        assert isinstance(pane, StubPane) and pane.opened == [(ItemKind.TOOL, "place-order")]
        assert app.server == "profiles"


@pytest.mark.slow
async def test_an_action_of_another_screen_shows_the_screen_and_is_done() -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        palette = await search(app, pilot, "log level lines")
        assert "Hide log lines below a level" in entries(palette.listing.rows)
        await search(app, pilot, "sort the statistics")
        await pilot.press("enter")
        await until(lambda: app.main.shown == "statistics" and "Sort by" in screen_text(app), pilot)


MEANT = (
    ("1", "changed", "Show what the last save changed"),
    ("1", "diff", "Compare the last result"),
    ("2", "diff", "Compare exchanges"),
    ("2", "latency", "Show where the time went"),
    ("3", "latency", "Go to the statistics"),
    ("3", "rate", "Go to the statistics"),
    ("3", "slow", "Show where the time went"),
    ("3", "share", "Export traffic to a file"),
    ("4", "changed", "Show what the last save changed"),
    ("4", "order by", "Sort the clients by"),
    ("5", "order by", "Sort the traffic by"),
    ("5", "api key", "Copy the configuration for a client"),
    ("5", "api key", "api_key"),
    ("5", "timeout", "tool_timeout_ms"),
    ("5", "approve", "Answer the waiting question"),
    ("6", "secret", "Copy the configuration for a client"),
)
"""Screen, typed text, and the beginning of an entry that must be among the first four."""


@pytest.mark.slow
async def test_the_palette_finds_what_is_meant_by_other_words() -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        for screen, words, wanted in MEANT:
            await app.main.show_screen(list(SCREENS)[int(screen) - 1])
            await pilot.pause()
            found = entries(PaletteIndex(all_entries(app)).lines(words))[:4]
            assert any(label.startswith(wanted) for label in found), (words, found)


@pytest.mark.slow
async def test_a_search_does_not_match_letters_that_are_scattered_over_a_name() -> None:
    async with running_frame(panes=PANES) as (app, pilot):
        await until(lambda: app.main.focused is not None, pilot)
        found = entries(PaletteIndex(all_entries(app)).lines("sort"))
        assert found and all(label.startswith("Sort") for label in found)
        assert not PaletteIndex(all_entries(app)).lines("crdt")


def index_of(*names: str) -> PaletteIndex:
    return PaletteIndex(PaletteEntry(name, None, group="Tools") for name in names)


def test_an_exact_name_is_first_then_its_beginning_then_its_words() -> None:
    actions = [
        PaletteEntry("Show the report", None, group="Desk", words="fetch"),
        PaletteEntry("Quit", None, group="Desk"),
    ]
    tools = [
        PaletteEntry(name, None, group="Tools") for name in ("web-fetch", "fetch-all", "fetch", "prefetch")
    ]
    lines = PaletteIndex([*actions, *tools]).lines("Fetch")
    assert [line.label for line in lines] == [
        "Tools", "fetch", "fetch-all", "web-fetch", "Desk", "Show the report"
    ]  # fmt: skip


def test_the_inside_of_a_name_is_found_only_if_nothing_else_is() -> None:
    assert entries(index_of("prefetch", "unrelated").lines("fetch")) == ["prefetch"]
    assert not index_of("prefetch").lines("fe")
    assert entries(index_of("AskUserQuestion").lines("question")) == ["AskUserQuestion"]


def test_a_long_group_is_cut_and_the_rest_is_counted() -> None:
    index = index_of(*(f"tool-{number}" for number in range(150)))
    assert headings(index.lines("")) == ["Tools", "… 144 more: type a part of the name"]
    assert len(entries(index.lines("tool"))) == 100
    assert headings(index.lines("tool"))[-1].startswith("… 50 more")


@pytest.mark.slow
async def test_the_cursor_skips_headings() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        palette = await search(app, pilot, "profiles")
        rows = palette.listing.rows
        assert isinstance(rows[0], Heading) and isinstance(rows[2], Heading)
        await pilot.press("up")
        assert palette.listing.cursor == 1
        await pilot.press("down")
        assert palette.listing.cursor == 3
        await pilot.press("up")
        assert palette.listing.cursor == 1


@pytest.mark.slow
async def test_a_setting_shows_its_value_and_how_to_change_it() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await search(app, pilot, "tool_timeout_ms")
        assert "30000 · flag --tool-timeout-ms" in screen_text(app)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, SettingScreen), pilot)
        await until(lambda: "the variable MCPDESK_TOOL_TIMEOUT_MS" in screen_text(app), pilot)
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)


@pytest.mark.slow
async def test_settings_of_a_slow_core_are_added_when_they_arrive() -> None:
    link = quiet_link()
    link.settings_answer = Future[tuple[SettingView, ...]]()
    async with running_frame(link) as (app, pilot):
        await pilot.press("ctrl+p", *"api_key")
        await until(lambda: isinstance(app.screen, Palette), pilot)
        palette = app.screen
        assert isinstance(palette, Palette) and "Settings" not in headings(palette.listing.rows)
        link.settings_answer.set_result(tuple(link.setting_list))
        await until(lambda: "Settings" in headings(palette.listing.rows), pilot)


def crowded_link() -> FakeLink:
    """50 servers with 300 tools each."""
    link = quiet_link()
    server, tool = link.core.servers[0], sample_catalogue()[0]
    names = [f"server-{number}" for number in range(50)]
    for name in names:
        tools = tuple(replace(tool, name=f"{name}-tool-{at}", title="") for at in range(300))
        link.catalogues[name] = Catalogue(name, 1, tools)
    more = (replace(server, name=name, title=name) for name in names)
    link.core = replace(link.core, servers=(*link.core.servers, *more))
    return link


@pytest.mark.slow
async def test_the_palette_opens_before_the_tools_of_many_servers_are_read() -> None:
    async with running_frame(crowded_link()) as (app, pilot):
        app.action_palette()
        await until(lambda: isinstance(app.screen, Palette) and app.screen.is_mounted)
        palette = app.screen
        assert isinstance(palette, Palette) and is_adding(palette)
        assert "user-profile" in screen_text(app) or "Desk" in screen_text(app)
        await search(app, pilot, "server-49-tool-299")
        await until(lambda: entries(palette.listing.rows) == ["server-49-tool-299"], pilot)
        assert "server-49 " in screen_text(app)


@pytest.mark.slow
async def test_a_line_that_the_person_moved_to_stays_selected_while_entries_are_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(palette_dialog, "FIRST_STEP_TIME_S", 0.0)
    link = crowded_link()
    link.settings_answer = Future[tuple[SettingView, ...]]()
    async with running_frame(link) as (app, pilot):
        app.action_palette()
        await until(lambda: isinstance(app.screen, Palette) and app.screen.is_mounted)
        palette = app.screen
        assert isinstance(palette, Palette)
        await until(lambda: "Screens" in headings(palette.listing.rows), pilot)
        await pilot.press("down", "down")
        chosen = palette.listing.selected
        link.settings_answer.set_result(tuple(link.setting_list))
        await until(lambda: "Settings" in headings(palette.listing.rows), pilot)
        assert palette.listing.selected is chosen


@pytest.mark.slow
async def test_escape_closes_the_palette_and_a_second_one_never_opens() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("ctrl+p", "ctrl+p")
        assert sum(isinstance(screen, Menu) for screen in app.screen_stack) == 1
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.main


@pytest.mark.slow
async def test_a_search_that_ends_while_the_palette_closes_shows_nothing() -> None:
    async with running_frame(quiet_link()) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(lambda: isinstance(app.screen, Palette), pilot)
        palette = app.screen
        assert isinstance(palette, Palette)
        await until(lambda: not is_adding(palette), pilot)
        await palette.query(".box").remove()
        palette._search_again()
        await until(lambda: not is_adding(palette), pilot)
        assert app.is_running and not app.return_code
