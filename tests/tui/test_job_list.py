"""Jobs on the activity screen: those under way first, and cancelling one."""

from __future__ import annotations

import time
from dataclasses import replace

from textual.widgets import Static

from mcpdesk.inbox.question import Option, Page
from mcpdesk.link.values import JobView
from mcpdesk.protocol.tasks import TaskStatus
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.job_list import STATES, JobList
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, toasts
from tests.tui.test_activity import activity, until

S = TaskStatus


def job(name: str, status: TaskStatus = S.WORKING, ago: float = 125.0, took: float = 3.1) -> JobView:
    began = time.time() - ago
    return JobView(name, "profiles", name, "claude-code 2.1", status, "half way", began, began + took, 600.0)


def with_jobs(*jobs: JobView) -> FakeLink:
    link = quiet_link()
    link.job_list = list(jobs)
    link.core = replace(link.core, jobs_version=1)
    return link


def rows(pane: ActivityPane) -> list[str]:
    return row_texts(pane.jobs, pane.jobs.size.width)


def row_texts(jobs: JobList, width: int) -> list[str]:
    return ["".join(text for text, _ in jobs.spans(at, width)) for at in range(jobs.row_count)]


def test_every_state_has_a_glyph_and_a_word() -> None:
    assert set(STATES) == {status.value for status in S}
    assert len({glyph for glyph, _, _ in STATES.values()}) == len(STATES)


async def test_jobs_under_way_come_first_with_how_long_they_run() -> None:
    link = with_jobs(job("old", S.COMPLETED), job("report"), job("ask", S.INPUT_REQUIRED, 5.0))
    async with activity(link) as (_, _, pane):
        shown = rows(pane)
        assert [row.split("profiles/")[1].split()[0] for row in shown] == ["ask", "report", "old"]
        assert "? needs input" in shown[0] and shown[0].rstrip().endswith("5 s")
        assert "▸ working" in shown[1] and "claude-code 2.1" in shown[1] and "half way" in shown[1]
        assert shown[1].rstrip().endswith("2 min") and shown[2].rstrip().endswith("in 3.1 s")
        assert str(pane.query_one("#jobs-count", Static).content) == "Jobs  2 running · 1 ended"
        assert not pane.query_one(".teach", Static).display


async def test_a_job_is_cancelled_where_the_keys_go_to_the_jobs() -> None:
    link = with_jobs(job("report"), job("old", S.CANCELLED))
    link.ask(Page("Tea?", "", (Option("yes"),)))
    async with activity(link) as (app, pilot, pane):
        await pilot.press("x")
        await pilot.pause()
        assert link.cancelled_jobs == [] and pane.jobs.has_focus
        await pilot.press("x")
        assert link.cancelled_jobs == ["report"]
        await pilot.press("j", "x")
        await pilot.pause()
        assert link.cancelled_jobs == ["report"] and "No running job is selected." in toasts(app)


async def test_the_selected_job_stays_selected_and_without_jobs_there_is_no_list() -> None:
    link = with_jobs(job("first"), job("second", ago=1.0))
    async with activity(link) as (_, pilot, pane):
        pane.jobs.focus()
        await pilot.press("j")
        chosen = pane.jobs.selected
        assert chosen is not None and chosen.id == "first"
        link.job_list = [job("third", ago=0.5), *link.job_list]
        link.core = replace(link.core, jobs_version=2)
        await until(pilot, lambda: pane.jobs.row_count == 3)
        assert pane.jobs.selected is not None and pane.jobs.selected.id == "first"
        link.job_list = []
        link.core = replace(link.core, jobs_version=3)
        await until(pilot, lambda: pane.jobs.row_count == 0)
        assert not pane.jobs.display and pane.query_one(".teach", Static).display


async def test_names_of_strangers_stay_on_their_row() -> None:
    link = with_jobs(replace(job("x"), tool="a\x1b[31m\nb" * 20, peer="\x07peer", message="m\r\nn" * 99))
    async with activity(link, size=(60, 20)) as (_, _, pane):
        (row,) = rows(pane)
        assert not any(ord(letter) < 32 for letter in row) and "peer" not in row
