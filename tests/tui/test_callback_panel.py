"""Callbacks on the activity screen: countdowns, firing before time, cancelling."""

from __future__ import annotations

import re
import time

import pytest

from mcpdesk.tui.activity.callback_panel import CallbackPanel, repeats, state_of
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import activity, callback, detail, link_with, part, row_texts, tabs, until
from tests.support.frame import toasts


def panel(pane: ActivityPane) -> CallbackPanel:
    return part(pane, CallbackPanel)


def rows(pane: ActivityPane) -> list[str]:
    return row_texts(panel(pane).listing)


def test_states_have_a_glyph_and_a_word() -> None:
    waiting, fired = callback(1), callback(2, due=None, fired=3)
    cancelled = callback(3, due=None, fired=1)
    assert [state_of(each)[:2] for each in (waiting, fired, cancelled)] == [
        ("◷", "waiting"), ("✓", "fired"), ("⊘", "cancelled"),
    ]  # fmt: skip
    assert [repeats(each) for each in (waiting, fired, cancelled)] == ["2 left", "3 of 3", "1 of 3"]


async def test_the_next_one_comes_first_and_what_is_over_last() -> None:
    later, over = callback(1, due=time.time() + 3700), callback(2, due=None, fired=3)
    async with activity(link_with(later, over, callback(3)), show="callbacks") as (_, _, pane):
        shown = rows(pane)
        assert [row.split()[1] for row in shown] == ["waiting", "waiting", "fired"]
        assert re.search(r"in 2[34]:", shown[0]) and "2 left" in shown[0] and "claude-code 2.1" in shown[0]
        assert "message 3" in shown[0] and "in 1:01:" in shown[1] and "s ago" in shown[2]
        assert tabs(pane)[2] == "Callbacks ◷2"


async def test_the_countdown_goes_on_by_itself() -> None:
    async with activity(link_with(callback(1)), show="callbacks") as (_, pilot, pane):
        listing = panel(pane).listing
        due = listing.rows[0].due
        assert due is not None
        listing.tick(due - 9.5)
        assert "in 0:10" in rows(pane)[0]
        assert listing.tick(due + 1) and "now" in rows(pane)[0]
        await until(pilot, lambda: "in 23:" in rows(pane)[0])


async def test_r_fires_and_x_asks_before_it_cancels() -> None:
    link = link_with(callback(7), callback(8, due=None))
    async with activity(link, show="callbacks") as (app, pilot, _):
        await pilot.press("r")
        assert link.fired == [("profiles", 7)]
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("n")
        await until(pilot, lambda: app.screen is app.main)
        assert link.cancelled_callbacks == []
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("x")
        await until(pilot, lambda: link.cancelled_callbacks == [("profiles", 7)])
        await pilot.press("j", "r")
        await until(pilot, lambda: "No waiting callback is selected." in toasts(app))
        assert link.fired == [("profiles", 7)]


async def test_the_message_is_shown_in_full_and_copied() -> None:
    link = link_with(callback(1, message="first line\nsecond \x1b[31mline"))
    async with activity(link, show="callbacks") as (app, pilot, pane):
        assert "first line\nsecond ␛[31mline" in detail(panel(pane))
        assert "every 60 s" in detail(panel(pane)) and "callback://1" in detail(panel(pane))
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("m")
        await until(pilot, lambda: app.clipboard.startswith("first line\n"))


async def test_words_narrow_the_callbacks() -> None:
    async with activity(link_with(callback(1), callback(2, message="stretch")), show="callbacks") as (
        _,
        pilot,
        pane,
    ):
        await pilot.press("slash", *"stretch", "enter")
        assert len(rows(pane)) == 1 and "stretch" in rows(pane)[0]


@pytest.mark.parametrize("width", [40, 80, 160])
async def test_rows_fit(width: int) -> None:
    link = link_with(callback(1, message="m\x07\n" * 99, peer="p" * 99))
    async with activity(link, size=(width, 24), show="callbacks") as (_, _, pane):
        listing = panel(pane).listing
        (row,) = row_texts(listing, width)
        assert len(row) <= width and not any(ord(letter) < 32 for letter in row)
