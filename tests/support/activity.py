"""The activity screen on sample data, and helpers that read its parts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.link.values import CallbackView, JobKind, JobState, JobView, PlanView, StepView, TodoView
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.forms.question_dialog import QuestionScreen
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.line_list import LineList
from mcpdesk.tui.widgets.section import Section
from tests.support.fake_link import FakeLink
from tests.support.frame import STUBS, quiet_link, running_frame
from tests.support.patience import until

PANES_HERE = {**STUBS, "activity": PANES["activity"]}
AnySection = TypeVar("AnySection", bound=Section[Any])


def link_with(*work: JobView | CallbackView | TodoView | PlanView) -> FakeLink:
    """Sample data without a waiting question, with this background work."""
    link = quiet_link()
    link.job_list = [each for each in work if isinstance(each, JobView)]
    link.callback_list = [each for each in work if isinstance(each, CallbackView)]
    link.todo_list = [each for each in work if isinstance(each, TodoView)]
    link.works(plans=tuple(each for each in work if isinstance(each, PlanView)))
    return link


@asynccontextmanager
async def activity(
    link: FakeLink, size: tuple[int, int] = (100, 30), show: str = ""
) -> AsyncIterator[tuple[DeskApp, Pilot[None], ActivityPane]]:
    """The activity screen of a link whose questions were postponed; `show` is the part to open."""
    asked, link.asked = link.asked, []
    async with running_frame(link, size=size, panes=PANES_HERE) as (app, pilot):
        app.main.questions.opened.update(question.id for question in asked)
        link.asked = asked
        await pilot.press("3")
        await pilot.pause()
        pane = app.main.pane
        assert isinstance(pane, ActivityPane)
        await until(lambda: pane._has_chosen_section, pilot)
        if show:
            await app.main.action_show_part(show)
        await pilot.pause()
        yield app, pilot, pane
    QuestionScreen.drafts.clear()


def part(pane: ActivityPane, kind: type[AnySection]) -> AnySection:
    """One part of the screen."""
    return pane.query_one(kind)


def row_texts(listing: LineList, width: int = 0) -> list[str]:
    """Text of each row."""
    width = width or listing.size.width
    return ["".join(text for text, _ in listing.spans(at, width)) for at in range(listing.row_count)]


def tabs(pane: ActivityPane) -> list[str]:
    """The titles of the parts with their counts."""
    return pane.query_one(TabStrip).titles


def detail(section: Section[Any]) -> str:
    """The selected row in full."""
    return str(section.query(".detail Static").first(Static).content)


def lesson(section: Section[Any]) -> str:
    """Help text of an empty section; "" if it is not shown."""
    taught = section.query_one(".lesson", Static)
    return str(taught.content) if taught.display else ""


def job(name: str, state: JobState = JobState.RUNNING, **changes: Any) -> JobView:
    """A program that began two minutes ago; ended ones took 3.1 seconds."""
    began = time.time() - 125.0
    known: dict[str, Any] = {
        "id": f"profiles:{name}", "kind": JobKind.PROGRAM, "server": "profiles", "name": name,
        "peer": "claude-code 2.1", "state": state, "message": "", "started": began,
        "ended": began + 3.1 if state.is_final else None, "number": 1, "pid": 4711, "size": 2048,
        "file": "/tmp/output.txt",
    }  # fmt: skip
    return JobView(**(known | changes))


def callback(number: int, **changes: Any) -> CallbackView:
    """A callback that is due in 24 minutes, for the second of three times."""
    now = time.time()
    known: dict[str, Any] = {
        "server": "profiles", "id": number, "message": f"message {number}", "delay_s": 60.0,
        "repeat_count": 3, "fired": 1, "due": now + 1439.9, "peer": "claude-code 2.1", "created": now - 78,
        "last_fired": now - 18,
    }  # fmt: skip
    return CallbackView(**(known | changes))


def todo(number: int, name: str, *steps: str, **changes: Any) -> TodoView:
    """A task; a step that begins with x is done."""
    made = tuple(
        StepView(at, text.removeprefix("x "), 1.0 if text.startswith("x ") else None)
        for at, text in enumerate(steps, 1)
    )
    known: dict[str, Any] = {
        "server": "profiles", "created": float(number), "completed": None, "is_current": False,
    }  # fmt: skip
    return TodoView(id=number, name=name, steps=made, **(known | changes))


def plan(**changes: Any) -> PlanView:
    """A plan that is being made."""
    known: dict[str, Any] = {
        "server": "profiles", "goal": "Tidy up", "file": "/plans/tidy.md",
        "since": "2026-01-02T03:04:05+00:00", "is_active": True,
    }  # fmt: skip
    return PlanView(**(known | changes))
