"""The plan on the activity screen: whether plan mode is on, and the text as it is written."""

from __future__ import annotations

from functools import partial

import pytest
from textual.widgets import Markdown, Static

from mcpdesk.link.values import PlanView
from mcpdesk.tui.activity.plan_panel import MARKDOWN_LIMIT, PlanPanel
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import activity, lesson, link_with, part, plan, tabs, until
from tests.support.fake_link import FakeLink


def planned(*plans: PlanView, text: str = "# Tidy up\n\n1. **all** of it\n") -> FakeLink:
    link = link_with(*plans)
    link.plan_texts["profiles"] = text
    return link


def mode(pane: ActivityPane) -> str:
    return str(part(pane, PlanPanel).query_one(".mode", Static).content)


def source(pane: ActivityPane) -> str:
    shown = [one for one in part(pane, PlanPanel).query(Markdown) if one.display]
    return shown[0].source if shown else ""


async def test_plan_mode_is_obvious_and_the_plan_is_markdown() -> None:
    async with activity(planned(plan()), show="plan") as (app, pilot, pane):
        assert "plan mode is ON" in mode(pane) and "Tidy up" in mode(pane) and tabs(pane)[4] == "Plan on"
        await until(pilot, lambda: "**all**" in source(pane))
        assert "● plan mode" in app.main.header.render().plain
        assert app.focused is pane.section.entry


@pytest.mark.slow
async def test_since_when_is_said_by_the_clock_of_this_place() -> None:
    for written, told in ((plan().since, "2026-01-0"), ("some\x07time", "some␇time")):
        async with activity(planned(plan(since=written)), show="plan") as (_, _, pane):
            assert f"since {told}" in mode(pane) and "+00:00" not in mode(pane)


async def test_what_is_written_appears_and_the_end_of_plan_mode_shows() -> None:
    link = planned(plan())
    async with activity(link, show="plan") as (app, pilot, pane):
        await until(pilot, lambda: "**all**" in source(pane))
        link.plan_texts["profiles"] = "# Tidy up\n\n- less"
        await until(pilot, lambda: "- less" in source(pane))
        link.works(plans=(plan(is_active=False),))
        await until(pilot, lambda: "plan mode is off" in mode(pane))
        assert tabs(pane)[4] == "Plan" and "plan mode" not in app.main.header.render().plain
        link.works(plans=())
        await until(pilot, lambda: "PlanMode" in lesson(part(pane, PlanPanel)))


async def test_the_plan_of_the_server_the_screen_is_about_comes_first() -> None:
    others = plan(server="hello", goal="Holidays", is_active=True)
    async with activity(planned(others, plan(is_active=False)), show="plan") as (app, pilot, pane):
        assert "Tidy up" in mode(pane)
        app.main.server = "hello"
        await until(pilot, lambda: "Holidays" in mode(pane))


async def test_a_long_plan_and_one_that_is_gone_are_shown_as_they_are() -> None:
    link = planned(plan(), text="x\x1b[31m " + "word " * MARKDOWN_LIMIT)
    async with activity(link, show="plan") as (_, pilot, pane):
        plain = part(pane, PlanPanel).query_one("Detail > Static", Static)
        await until(pilot, lambda: str(plain.content).startswith("x␛[31m word"))
        link.plan_texts.clear()
        await until(pilot, lambda: "/plans/tidy.md cannot be read" in str(plain.content))


@pytest.mark.slow
async def test_plan_file_and_goal_are_copied_and_nothing_is_filtered() -> None:
    async with activity(planned(plan()), show="plan") as (app, pilot, pane):
        await until(pilot, lambda: "**all**" in source(pane))
        for key, text in (("p", "# Tidy up"), ("f", "/plans/tidy.md"), ("g", "Tidy up")):
            await pilot.press("y")
            await until(pilot, lambda: isinstance(app.screen, Menu))
            await pilot.press(key)
            await until(pilot, partial(lambda start: app.clipboard.startswith(start), text))
        await pilot.press("slash")
        assert not part(pane, PlanPanel).has_class("-filtering")
