"""Parts of the activity screen: the open one, the texts of the tabs, and the keys that lead there."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.inbox.question import Option, Page
from mcpdesk.link.link import Link
from mcpdesk.link.values import JobKind, JobState
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.activity.kept_panels import CallbackPanel
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.activity import SECTIONS, ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.pane import Pane
from tests.support.activity import (
    activity,
    callback,
    job,
    lesson,
    link_with,
    part,
    plan,
    row_texts,
    tabs,
    todo,
)  # fmt: skip
from tests.support.desk import running_desk
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.frame import STUBS, quiet_link, running_frame, toasts
from tests.support.patience import until


def busy_link() -> FakeLink:
    """Something of everything."""
    jobs = job("make"), job("sleep 9"), job("old", JobState.SUCCEEDED)
    todos = todo(1, "Release", "x one", "two", is_current=True), todo(2, "Done", completed=1.0)
    link = link_with(*jobs, callback(1), callback(2, due=None), *todos, plan())
    link.works(running_jobs=2, next_callback=time.time() + 589.9)
    return link


@pytest.mark.slow
async def test_tabs_count_what_goes_on() -> None:
    link = busy_link()
    link.ask(Page("Tea?", "", (Option("yes"),)))
    async with activity(link) as (_, _, pane):
        assert tabs(pane) == ["Inbox ?1", "Jobs ▸2", "Callbacks ◷1", "Tasks ○1", "Plan on"]
        assert pane.shown == "inbox"
    async with activity(busy_link()) as (app, _, pane):
        assert pane.shown == "jobs" and app.focused is pane.section.listing


@pytest.mark.slow
async def test_shift_and_arrows_go_from_part_to_part_and_keep_the_focus_in_sight() -> None:
    async with activity(quiet_link()) as (app, pilot, pane):
        for name in [*list(SECTIONS)[1:], "inbox"]:
            await pilot.press("shift+right")
            await until(lambda: pane.section.display, pilot)
            assert pane.shown == name
            assert app.focused is None or app.focused.is_on_screen
        await pilot.press("ctrl+pageup")
        assert pane.shown == "plan"


@pytest.mark.slow
async def test_empty_parts_teach() -> None:
    tools = {"inbox": "AskUserQuestion", "jobs": "BackgroundBash", "callbacks": "SetCallback",
             "tasks": "TaskManager", "plan": "PlanMode"}  # fmt: skip
    assert list(tools) == list(SECTIONS)
    async with activity(quiet_link()) as (app, pilot, pane):
        for name, tool in tools.items():
            await app.main.action_show_part(name)
            await pilot.pause()
            assert tool in lesson(pane.section)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "name"), [("plan mode", "plan"), ("2 jobs", "jobs"), ("◷ 9:", "callbacks")]
)
async def test_the_header_tells_and_leads_there(words: str, name: str) -> None:
    async with activity(busy_link(), size=(140, 30), show="inbox") as (app, pilot, pane):
        await until(lambda: words in app.main.header.render().plain, pilot)
        await pilot.press("1")
        at = app.main.header.render().plain.index(words)
        await pilot.click("DeskHeader", offset=(at + 1, 0))
        await until(lambda: app.main.shown == "activity", pilot)
        assert pane.shown == name


@pytest.mark.slow
async def test_a_notice_leads_to_its_part() -> None:
    link = quiet_link()
    async with activity(link) as (app, pilot, pane):
        await pilot.press("1")
        link.tell("Callback 1 of profiles: stretch", screen="activity/callbacks")
        await until(
            lambda: toasts(app)[-1:] == ["Callback 1 of profiles: stretch · press 3: activity"], pilot
        )
        await pilot.press("3")
        await until(lambda: pane.shown == "callbacks", pilot)


class Sections(Pane):
    """Pane that keeps the sections it was asked to show."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.sections: list[str] = []

    def show_section(self, name: str) -> None:
        self.sections.append(name)


@pytest.mark.slow
async def test_another_screen_on_the_way_does_not_use_up_the_part_of_a_notice() -> None:
    async with running_frame(panes={**STUBS, "traffic": Sections, "activity": Sections}) as (app, _):
        app.main.show_section_later("jobs")
        for name, sections in (("traffic", []), ("activity", ["jobs"])):
            await app.main.show_screen(name)
            assert isinstance(app.main.pane, Sections) and app.main.pane.sections == sections


CALL: dict[str, Any] = {"kind": JobKind.CALL, "number": 0}


@pytest.mark.slow
async def test_a_job_that_fails_is_told_and_leads_to_the_jobs() -> None:
    link = quiet_link()
    link.job_list = [job("make"), job("broken before", JobState.FAILED)]
    link.works(running_jobs=1)
    async with activity(link, show="inbox") as (app, pilot, pane):
        await pilot.press("1")
        link.job_list = [job("make", JobState.FAILED, message="exit code 2"), link.job_list[1]]
        link.works(running_jobs=0)
        told = "Job 1 of profiles failed (exit code 2): make · press 3: activity"
        await until(lambda: toasts(app)[-1:] == [told], pilot)
        await pilot.press("3")
        await until(lambda: pane.shown == "jobs", pilot)
        assert not any("broken before" in text for text in toasts(app))
        failed = job("Bash", JobState.FAILED, message="Bash failed with exit code 3", **CALL)
        link.job_list = [failed, *link.job_list]
        link.works()
        await until(lambda: toasts(app)[-1:] == ["Call of profiles failed (exit code 3): Bash"], pilot)


@pytest.mark.slow
async def test_what_a_real_core_does_is_followed_and_ended(tmp_path: Path) -> None:
    tools = ["BackgroundBash", "SetCallback", "TaskManager"]
    (tmp_path / "mcp.json").write_text(json.dumps({"name": "own", "builtins": tools}))
    async with running_desk(tmp_path) as link:

        async def call(name: str, **arguments: object) -> None:
            made = link.request("own", "tools/call", {"name": name, "arguments": arguments})
            outcome = await asyncio.wrap_future(made.outcome)
            assert outcome.result is not None and not outcome.result.get("isError"), outcome

        await call("BackgroundBash", command="for n in 1 2 3; do echo line $n; done; exec sleep 600")
        await call("SetCallback", action="set", message="stretch", delay_seconds=3600)
        await call("TaskManager", action="create", query="Release")
        app = DeskApp(link)
        async with driven(app, size=(120, 40)) as pilot:
            await until(lambda: app.main.shown, pilot)
            await app.main.action_show_part("jobs")
            pane = app.main.pane
            assert isinstance(pane, ActivityPane)
            await until(lambda: part(pane, JobPanel).output.rows[:3] == ["line 1", "line 2", "line 3"], pilot)
            await until(lambda: tabs(pane) == ["Inbox", "Jobs ▸1", "Callbacks ◷1", "Tasks ○1", "Plan"], pilot)
            await until(lambda: " %" in row_texts(part(pane, JobPanel).listing)[0], pilot)
            await pilot.press("x")
            await until(lambda: isinstance(app.screen, Menu), pilot)
            await pilot.press("y")
            await until(lambda: "killed" in row_texts(part(pane, JobPanel).listing)[0], pilot)
            await pilot.press("shift+right")
            await until(lambda: pane.shown == "callbacks" and pane.section.listing.has_focus, pilot)
            await pilot.press("r")
            await until(lambda: "fired" in row_texts(part(pane, CallbackPanel).listing)[0], pilot)
            await call("TaskManager", action="complete", query="", task_id=1)
            await until(lambda: tabs(pane)[3] == "Tasks ✓", pilot)
            assert link.busy() == ()
