"""Jobs on the activity screen: rows, output as it comes, and ending one."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import partial

import pytest

from mcpdesk.inbox.question import Option, Page
from mcpdesk.link.values import CallFile, JobKind, JobOutput, JobState, JobUse
from mcpdesk.tui.activity.job_panel import JobPanel
from mcpdesk.tui.screens.activity import ActivityPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.activity import activity, detail, job, link_with, part, row_texts
from tests.support.frame import toasts
from tests.support.patience import until

S = JobState


def panel(pane: ActivityPane) -> JobPanel:
    return part(pane, JobPanel)


def rows(pane: ActivityPane) -> list[str]:
    return row_texts(panel(pane).listing)


@pytest.mark.slow
async def test_what_waits_and_runs_comes_first() -> None:
    task = {"kind": JobKind.TASK, "number": 0, "message": "half way"}
    link = link_with(
        job("old", S.SUCCEEDED, message="exit code 0"),
        job("make all", number=7),
        job("ask", S.WAITING, **task),
    )
    async with activity(link, show="jobs") as (_, _, pane):
        shown = rows(pane)
        assert [row.split()[:2] for row in shown] == [["?", "needs"], ["▸", "running"], ["✓", "succeeded"]]
        assert "task  ask  half way" in shown[0]
        assert (
            "   7  make all" in shown[1]
            and "claude-code 2.1" in shown[1]
            and re.search(r" [2-9]:\d\d min", shown[1])
        )
        assert "exit 0" in shown[2] and "3.1 s" in shown[2]


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
async def test_rows_fit_and_names_of_strangers_stay_on_them(width: int) -> None:
    strange = job("a\x1b[31m\nb" * 40, peer="\x07peer" * 9, message="m\r\nn" * 99)
    async with activity(link_with(strange), size=(width, 24), show="jobs") as (_, _, pane):
        (row,) = row_texts(panel(pane).listing, width)
        assert not any(ord(letter) < 32 for letter in row) and len(row) <= width + 1
        assert "␛" in detail(panel(pane))


@pytest.mark.slow
async def test_output_is_shown_as_it_comes_and_read_to_its_end() -> None:
    link = link_with(job("make"))
    link.outputs["profiles:make"] = b"\x1b[32mone\x1b[0m\ntwo"
    async with activity(link, show="jobs") as (_, pilot, pane):
        view = panel(pane)
        await until(lambda: view.output.rows == ["one", "two"], pilot)
        link.outputs["profiles:make"] += b"!\nthree\n"
        await until(lambda: view.output.rows == ["one", "two!", "three"], pilot)
        assert "following" in str(view.query_one("JobDetail").border_title)
        link.job_list = [job("make", S.SUCCEEDED, message="exit code 0")]
        link.works()
        await until(lambda: "complete" in str(view.query_one("JobDetail").border_title), pilot)
        assert "succeeded: exit code 0" in detail(view)


@pytest.mark.slow
async def test_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    link = link_with(job("make"))
    piece = JobOutput("\ufffdthe end\n", 5_000_000, 5_000_010, is_last=False)

    def output(job: str, after: int) -> JobOutput:
        return JobOutput("", after, after, is_last=False) if after == piece.end else piece

    monkeypatch.setattr(link, "output", output)
    async with activity(link, show="jobs") as (_, pilot, pane):
        view = panel(pane)
        await until(lambda: view.output.rows == ["the end"], pilot)
        assert "MB before it" in str(view.query_one("JobDetail").border_title)
        piece = JobOutput("later\n", 9_000_000, 9_000_006, is_last=False)
        await until(lambda: view.output.rows == ["later"], pilot)
        piece = JobOutput("and on\n", 9_000_006, 9_000_013, is_last=False)
        await until(lambda: view.output.rows == ["later", "and on"], pilot)


@pytest.mark.slow
async def test_each_job_has_its_own_output_and_a_task_has_none() -> None:
    link = link_with(
        job("first"), job("second", started=1.0), job("task", started=0.5, kind=JobKind.TASK, number=0)
    )
    link.outputs |= {"profiles:first": b"of the first\n", "profiles:second": b"of the second\n"}
    async with activity(link, show="jobs") as (_, pilot, pane):
        view = panel(pane)
        await until(lambda: view.output.rows == ["of the first"], pilot)
        await pilot.press("j")
        await until(lambda: view.output.rows == ["of the second"], pilot)
        await pilot.press("j")
        await until(lambda: not view.output.display, pilot)
        await pilot.press("enter")
        assert view.listing.has_focus
        await pilot.press("k", "enter")
        assert view.output.has_focus
        await pilot.press("escape")
        assert view.listing.has_focus


@pytest.mark.slow
async def test_f_stops_following_and_goes_on() -> None:
    link = link_with(job("make"))
    link.outputs["profiles:make"] = b"line\n" * 300
    async with activity(link, show="jobs") as (_, pilot, pane):
        view = panel(pane).output
        await until(lambda: view.scroll_offset.y > 0, pilot)
        await pilot.press("f")
        assert not view.following
        await pilot.press("f")
        assert view.following and view.scroll_offset.y == view.max_scroll_y


@pytest.mark.slow
async def test_use_is_measured_beside_the_screen_while_the_jobs_are_in_sight() -> None:
    link = link_with(job("make"))
    link.uses = {"profiles:make": JobUse(0.98, 12_000_000, 3)}
    threads: list[str] = []
    real = link.usage

    def usage() -> Mapping[str, JobUse]:
        threads.append(threading.current_thread().name)
        return real()

    link.usage = usage  # type: ignore[method-assign]
    link.ask(Page("Tea?", "", (Option("yes"),)))
    async with activity(link) as (app, pilot, pane):
        assert pane.shown == "inbox" and not threads
        await app.main.action_show_part("jobs")
        await until(lambda: "98 %" in rows(pane)[0] and "3 processes" in detail(panel(pane)), pilot)
        assert "12" in rows(pane)[0]
        assert threads and "MainThread" not in threads


@pytest.mark.slow
async def test_x_asks_before_it_kills() -> None:
    link = link_with(job("make"), job("old", S.KILLED))
    async with activity(link, show="jobs") as (app, pilot, _):
        await pilot.press("x")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        assert link.killed_jobs == []
        await pilot.press("x")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("x", "enter")
        await until(lambda: app.screen is app.main, pilot)
        assert link.killed_jobs == [], "neither the same key again nor enter kills"
        await pilot.press("x")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("y")
        await until(lambda: link.killed_jobs == ["profiles:make"], pilot)
        await pilot.press("j", "x")
        await until(lambda: "No running job is selected." in toasts(app), pilot)
        assert link.killed_jobs == ["profiles:make"]


@pytest.mark.slow
async def test_the_selected_job_stays_selected() -> None:
    link = link_with(job("first", started=1.0), job("second"))
    async with activity(link, show="jobs") as (_, pilot, pane):
        await pilot.press("j")
        chosen = panel(pane).listing.selected
        assert chosen is not None and chosen.name == "first"
        link.job_list = [*link.job_list, job("third")]
        link.works()
        await until(lambda: panel(pane).listing.row_count == 3, pilot)
        assert panel(pane).listing.selected == chosen
        link.job_list = [job("first", S.FAILED, started=1.0)]
        link.works()
        await until(lambda: panel(pane).listing.row_count == 1, pilot)


@pytest.mark.slow
async def test_words_narrow_the_jobs_and_y_copies() -> None:
    link = link_with(
        job("make all", produced_files=(CallFile("all.tar.gz", 9), CallFile("log.txt", 2))), job("sleep 9")
    )
    link.outputs["profiles:make all"] = b"compiled\n"
    async with activity(link, show="jobs") as (app, pilot, pane):
        await pilot.press("slash", *"make", "enter")
        assert len(rows(pane)) == 1
        await until(lambda: panel(pane).output.rows == ["compiled"], pilot)
        for key, text in (("c", "make all"), ("o", "compiled"), ("f", "/tmp/output.txt")):
            await pilot.press("y")
            await until(lambda: isinstance(app.screen, Menu), pilot)
            await pilot.press(key)
            await until(partial(lambda copied: app.clipboard == copied, text), pilot)
        await pilot.press("y")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("a")
        await until(lambda: "made all.tar.gz, log.txt\n/tmp/output.txt" in app.clipboard, pilot)


@pytest.mark.slow
async def test_a_command_is_shown_whole_however_long_and_scrolls_above_its_output() -> None:
    long = "\n".join(f"step {number}" for number in range(99))
    troubled = job(long, problem="its output\x07 is lost")
    async with activity(link_with(troubled), size=(100, 24), show="jobs") as (_, pilot, pane):
        await pilot.press("enter")
        await until(lambda: panel(pane).output.size.height > 0, pilot)
        assert "step 0" in detail(panel(pane)) and "step 98" in detail(panel(pane))
        assert "! its output␇ is lost" in detail(panel(pane))
