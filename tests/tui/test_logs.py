"""The log pane: filter, level, source, whole text, copy."""

from __future__ import annotations

import pytest

from mcpdesk.tui.screens.logs import LogsPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.frame import quiet_link, running_frame


async def shown(app, pilot) -> LogsPane:
    await pilot.press("5")
    await pilot.pause()
    app.main.refresher.refresh()
    await pilot.pause()
    return app.main.query_one(LogsPane)


def status(pane: LogsPane) -> str:
    return str(pane.query_one(".status").content)


async def test_lines_arrive_once() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        for _ in range(3):
            app.main.refresher.refresh()
        assert pane.listing.row_count == len(link.log_lines)
        assert status(pane) == "following · 6 lines · level debug+ · source all"


async def test_slash_filters_while_typing_and_escape_shows_all() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("slash", *"orders.py", "enter")
        await pilot.pause()
        assert pane.listing.row_count == 2 and app.focused is pane.listing
        assert "2 of 6 lines" in status(pane) and status(pane).endswith("with orders.py")
        await pilot.press("escape")
        await pilot.pause()
        assert pane.listing.row_count == 6 and not pane.has_class("-filtering")


async def test_level_goes_up_and_round() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        counts = []
        for _ in range(5):
            counts.append(pane.listing.row_count)
            await pilot.press("l")
        assert counts == [6, 5, 3, 3, 1] and pane.listing.row_count == 6


@pytest.mark.slow
async def test_one_source_can_be_picked() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("o")
        assert isinstance(app.screen, Menu)
        assert [choice.label for choice in app.screen.choices] == [
            "all sources", "orders", "print", "server", "stderr",
        ]  # fmt: skip
        await pilot.press("down", "enter")
        await pilot.pause()
        assert pane.listing.row_count == 2
        await pilot.press("o", "enter")
        await pilot.pause()
        assert pane.listing.row_count == 6


async def test_filter_that_admits_nothing_says_how_to_get_out() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("slash", *"zzz", "enter")
        await pilot.pause()
        empty = pane.query_one(".empty")
        assert empty.display and "Esc shows all" in str(empty.content)


async def test_empty_log_teaches() -> None:
    link = quiet_link()
    link.log_lines = []
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        assert "print(), logging" in str(pane.query_one(".empty").content)


async def test_enter_shows_the_whole_text_and_escape_hides_it() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        text = str(pane.query_one("VerticalScroll Static").content)
        assert pane.has_class("-detail") and "KeyError: 'sku'" in text and "tools/orders.py:52" in text
        await pilot.press("k")
        await pilot.pause()
        assert "left-pad" in str(pane.query_one("VerticalScroll Static").content)
        await pilot.press("escape")
        assert not pane.has_class("-detail")


async def test_follow_can_be_switched() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("f")
        await pilot.pause()
        assert "not following" in status(pane)
        await pilot.press("f")
        assert pane.listing.following


async def test_copy_menu_offers_text_line_and_place() -> None:
    async with running_frame() as (app, pilot):
        await shown(app, pilot)
        for key, end in (("t", "KeyError: 'sku'"), ("p", "tools/orders.py:52"), ("l", "KeyError: 'sku'")):
            await pilot.press("y", key)
            await pilot.pause()
            assert app.clipboard.endswith(end)
