"""Callbacks, task lists and plans on the activity screen."""

from __future__ import annotations

import re
import time
from functools import partial

import pytest
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Markdown, Static

from mcpdesk.link.values import PlanView
from mcpdesk.tui.activity.kept_panels import MARKDOWN_LIMIT, CallbackPanel, PlanPanel, TodoPanel
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import (
    activity,
    callback,
    detail,
    lesson,
    link_with,
    part,
    plan,
    row_texts,
    tabs,
    todo,
)
from tests.support.fake_link import FakeLink
from tests.support.frame import toasts
from tests.support.patience import until


def rows(pane: ActivityPane) -> list[str]:
    """Rows of the shown section, their columns separated by one space."""
    return [" ".join(row.split()) for row in row_texts(pane.section.listing)]


async def choose(app: DeskApp, pilot: Pilot[None], *keys: str) -> None:
    """Press the first key, which opens a menu, then the others."""
    await pilot.press(keys[0])
    await until(lambda: isinstance(app.screen, Menu), pilot)
    await pilot.press(*keys[1:])
    await until(lambda: app.screen is app.main, pilot)


@pytest.mark.slow
async def test_the_next_callback_comes_first_and_what_is_over_last() -> None:
    link = link_with(
        callback(1, due=time.time() + 3700),
        callback(2, due=None, fired=3),
        callback(3),
        callback(4, due=None, fired=1, last_fired=1.0),
    )
    async with activity(link, show="callbacks") as (_, pilot, pane):
        shown = rows(pane)
        assert re.match(r"◷ waiting in 2[34]:\d\d 2 left claude-code 2.1 message 3$", shown[0])
        assert shown[1].startswith("◷ waiting in 1:01:")
        assert re.match(r"✓ fired \d+ s ago 3 of 3 ", shown[2]) and shown[3].startswith("⊘ cancelled")
        assert "1 of 3" in shown[3] and tabs(pane)[2] == "Callbacks ◷2"
        await until(lambda: rows(pane)[0] != shown[0], pilot)  # the countdown continues
        await pilot.press("slash", *"message 3", "enter")
        assert len(rows(pane)) == 1


@pytest.mark.slow
async def test_r_fires_and_x_asks_before_it_cancels() -> None:
    link = link_with(callback(7), callback(8, due=None))
    async with activity(link, show="callbacks") as (app, pilot, _):
        await pilot.press("r")
        assert link.fired == [("profiles", 7)]
        await choose(app, pilot, "x", "n")
        assert link.cancelled_callbacks == []
        await choose(app, pilot, "x", "y")
        await until(lambda: link.cancelled_callbacks == [("profiles", 7)], pilot)
        await pilot.press("j", "r")
        await until(lambda: "No waiting callback is selected." in toasts(app), pilot)
        assert link.fired == [("profiles", 7)]


@pytest.mark.slow
async def test_a_message_is_shown_in_full_and_copied() -> None:
    link = link_with(
        callback(1, message="first line\nsecond \x1b[31mline" + "\n" * 60),
        callback(2, message="another" + "\n" * 60),
    )
    async with activity(link, show="callbacks") as (app, pilot, pane):
        shown = detail(part(pane, CallbackPanel))
        assert all(text in shown for text in ("first line\nsecond ␛[31mline", "every 60 s", "callback://1"))
        await choose(app, pilot, "y", "m")
        await until(lambda: app.clipboard.startswith("first line\n"), pilot)
        view = pane.section.query_one(".detail", VerticalScroll)
        view.scroll_end(animate=False)
        await until(lambda: view.scroll_offset.y > 0, pilot)
        await pilot.press("j")
        await until(lambda: "another" in detail(part(pane, CallbackPanel)), pilot)
        await until(lambda: view.scroll_offset.y == 0, pilot)  # each row is read from its beginning


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 160])
async def test_rows_of_callbacks_fit(width: int) -> None:
    link = link_with(callback(1, message="m\x07\n" * 99, peer="p" * 99))
    async with activity(link, size=(width, 24), show="callbacks") as (_, _, pane):
        (row,) = row_texts(pane.section.listing, width)
        assert len(row) <= width and not any(ord(letter) < 32 for letter in row)


def tasks() -> FakeLink:
    return link_with(
        todo(1, "Release", "x changelog", "tag", is_current=True),
        todo(2, "Chores", "x sweep", completed=5.0),
        todo(3, "Later"),
    )


@pytest.mark.slow
async def test_the_current_task_comes_first_and_what_is_done_is_folded() -> None:
    async with activity(tasks(), show="tasks") as (app, pilot, pane):
        assert rows(pane) == [
            "▾ ● current 1 Release 1/2",
            "✓ [x] 1 changelog",
            "[ ] 2 tag",
            "○ open 3 Later no steps",
            "▸ ✓ done 2 Chores 1/1",
        ]
        assert tabs(pane)[3] == "Tasks ○2"
        await choose(app, pilot, "y", "t")
        await until(lambda: app.clipboard == "# Release\n\n- [x] changelog\n- [ ] tag", pilot)


@pytest.mark.slow
async def test_enter_folds_and_the_selected_row_stays_selected() -> None:
    link = tasks()
    async with activity(link, show="tasks") as (_, pilot, pane):
        listing = part(pane, TodoPanel).listing
        await pilot.press("j", "enter")
        assert rows(pane)[0].startswith("▸ ● current") and len(rows(pane)) == 3
        assert listing.cursor == 0
        await pilot.press("G", "enter")
        assert rows(pane)[-1] == "✓ [x] 1 sweep" and listing.cursor == 2
        link.todo_list = [*link.todo_list, todo(4, "New", is_current=False)]
        link.works()
        await until(lambda: any("New" in row for row in rows(pane)), pilot)
        chosen = listing.selected
        assert chosen is not None and chosen[0].name == "Chores"


@pytest.mark.slow
async def test_a_step_that_is_ticked_shows_at_once_and_in_full() -> None:
    link = link_with(todo(1, "Release", "a step\nof two lines \x1b[31m"))
    async with activity(link, show="tasks") as (_, pilot, pane):
        await pilot.press("j")
        panel = part(pane, TodoPanel)
        await until(lambda: "a step\nof two lines ␛[31m" in detail(panel), pilot)
        assert "open" in detail(panel) and "0 of 1 steps done" in detail(panel)
        link.todo_list = [todo(1, "Release", "x a step\nof two lines \x1b[31m")]
        link.works()
        await until(lambda: rows(pane)[1].startswith("✓ [x] 1 a step"), pilot)
        await until(lambda: "completed at" in detail(panel), pilot)


@pytest.mark.slow
async def test_servers_are_named_where_there_are_several_and_words_narrow() -> None:
    link = link_with(todo(1, "Release"), todo(1, "Holidays", "pack", server="hello"))
    async with activity(link, show="tasks") as (_, pilot, pane):
        assert all(name in " ".join(rows(pane)) for name in ("profiles", "hello"))
        await pilot.press("slash", *"pack", "enter")
        assert len(rows(pane)) == 2 and "Holidays" in rows(pane)[0]


def planned(*plans: PlanView, text: str = "# Tidy up\n\n1. **all** of it\n") -> FakeLink:
    link = link_with(*plans)
    link.plan_texts["profiles"] = text
    return link


def source(pane: ActivityPane) -> str:
    """The shown Markdown, or ""."""
    shown = [one for one in part(pane, PlanPanel).query(Markdown) if one.display]
    return shown[0].source if shown else ""


def title(pane: ActivityPane) -> str:
    return str(part(pane, PlanPanel).query_one("Detail").border_title)


@pytest.mark.slow
async def test_plan_mode_is_obvious_and_what_is_written_appears() -> None:
    link = planned(plan())
    async with activity(link, show="plan") as (app, pilot, pane):
        assert rows(pane)[0].startswith("● plan mode is ON profiles Tidy up") and tabs(pane)[4] == "Plan on"
        assert "● plan mode" in app.main.header.render().plain and "since 2026-01-0" in title(pane)
        await until(lambda: "**all**" in source(pane), pilot)
        link.plan_texts["profiles"] = "# Tidy up\n\n- less"
        await until(lambda: "- less" in source(pane), pilot)
        link.works(plans=(plan(is_active=False, since="some\x07time"),))
        await until(lambda: "plan mode is off" in rows(pane)[0] and "since some␇time" in title(pane), pilot)
        assert tabs(pane)[4] == "Plan" and "plan mode" not in app.main.header.render().plain
        await pilot.press("x")
        await until(lambda: "No active plan is selected." in toasts(app), pilot)
        first = plan(session="session:a", client="claude-code")
        second = plan(session="session:b", client="cursor", goal="Paint")
        link.works(plans=(first, second))
        await until(lambda: len(rows(pane)) == 2 and "cursor Paint" in rows(pane)[1], pilot)
        assert tabs(pane)[4] == "Plan on (2)"
        await pilot.press("j")
        await choose(app, pilot, "x", "y")
        await until(lambda: link.ended_plans == [("profiles", "session:b")], pilot)
        link.works(plans=())
        await until(lambda: "PlanMode" in lesson(part(pane, PlanPanel)), pilot)


@pytest.mark.slow
async def test_the_plan_of_the_server_the_screen_is_about_comes_first() -> None:
    others = plan(server="hello", goal="Holidays", file="/plans/holidays.md")
    link = planned(others, plan(is_active=False))
    link.plan_texts["hello"] = "sea"
    async with activity(link, show="plan") as (app, pilot, pane):
        assert "Tidy up" in rows(pane)[0]
        await until(lambda: "**all**" in source(pane), pilot)
        await pilot.press("j")
        await until(lambda: source(pane) == "sea" and "holidays.md" in title(pane), pilot)
        app.main.server = "hello"
        await until(lambda: "Holidays" in rows(pane)[0], pilot)


@pytest.mark.slow
async def test_a_long_plan_and_one_that_is_gone_are_shown_as_they_are() -> None:
    link = planned(plan(), text="x\x1b[31m " + "word " * MARKDOWN_LIMIT)
    async with activity(link, show="plan") as (_, pilot, pane):
        plain = part(pane, PlanPanel).query_one("Detail > Static", Static)
        await until(lambda: str(plain.content).startswith("x␛[31m word"), pilot)
        link.plan_texts.clear()
        await until(lambda: "/plans/tidy.md cannot be read" in str(plain.content), pilot)


@pytest.mark.slow
async def test_plan_file_and_goal_are_copied() -> None:
    async with activity(planned(plan()), show="plan") as (app, pilot, pane):
        await until(lambda: "**all**" in source(pane), pilot)
        for key, text in (("p", "# Tidy up"), ("f", "/plans/tidy.md"), ("g", "Tidy up")):
            await choose(app, pilot, "y", key)
            await until(partial(lambda start: app.clipboard.startswith(start), text), pilot)
