"""Marked lines that the filter hides are not exported or compared, and exports ask for their path."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from mcpdesk.tui.traffic.line_jumps import comparison_pair
from mcpdesk.tui.traffic.pane_texts import counts_text
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from tests.support.frame import toasts
from tests.support.patience import until
from tests.support.picture import shows
from tests.tui.test_traffic_list import many
from tests.tui.test_traffic_list import running as list_running
from tests.tui.test_traffic_pane import running


@pytest.mark.slow
async def test_the_path_of_an_export_can_be_changed_and_a_wrong_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.jsonl").write_text("mine")
    (tmp_path / "folder").mkdir()
    async with running() as (app, pilot, _):
        for typed, problem in (
            ("gone/a.jsonl", f"The folder {tmp_path / 'gone'} does not exist."),
            ("taken.jsonl", "taken.jsonl already exists. Enter another name."),
            ("folder", ""),
        ):
            if not isinstance(app.screen, PathPrompt):
                await pilot.press("w", "j")
            await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
            await pilot.press("ctrl+u", *typed, "enter")
            if problem:
                shown = app.screen.query_one(".problem", Static)
                await until(lambda p=problem, s=shown: str(s.content) == p, pilot)  # type: ignore[misc]
        await app.workers.wait_for_complete()
        (file,) = (tmp_path / "folder").iterdir()
        assert f"written to {file}" in toasts(app)[-1]
        assert (tmp_path / "taken.jsonl").read_text() == "mine"


@pytest.mark.slow
async def test_an_export_that_fails_says_why(tmp_path: Path) -> None:
    async with running() as (app, _, pane):
        pane._write([0], "jsonl", tmp_path / "gone" / "a.jsonl")
        await app.workers.wait_for_complete()
        assert "Not exported: No such file" in toasts(app)[-1]


@pytest.mark.slow
async def test_marked_lines_that_the_filter_hides_are_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (app, pilot, pane):
        await pilot.press("home", "m", "m", "m")
        shown = pane.link.traffic.exchange(2)
        pane.set_filter(f"tool:{shown.name}")
        await until(lambda: "3 marked (2 hidden)" in counts_text(pane.listing), pilot)
        await pilot.press("w")
        await until(lambda: shows(pilot, "The filter hides 2 marked lines"), pilot)
        assert shows(pilot, "1 marked, JSON Lines")
        await pilot.press("j")
        await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        (file,) = tmp_path.iterdir()
        assert len(file.read_text().splitlines()) == 1 and shown.name in file.read_text()


@pytest.mark.slow
async def test_hidden_marks_are_not_compared_by_accident() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("home", "m", "m")
        pane.set_filter(f"tool:{pane.link.traffic.exchange(2).name}")
        await until(lambda: "2 marked (2 hidden)" in counts_text(pane.listing), pilot)
        await pilot.press("d")
        await until(lambda: toasts(app)[-1:] != [], pilot)
        assert toasts(app)[-1].startswith("The filter hides 2 marked lines") and app.screen is app.main


async def test_the_marked_line_is_compared_with_the_selected_one() -> None:
    async with list_running(many(3)) as (app, _):
        app.listing.marks.add(0)
        assert comparison_pair(app.listing, 2) == (0, 2)
        assert comparison_pair(app.listing, 0) == "Mark two exchanges with m, then compare them."
        app.listing.marks.add(1)
        assert comparison_pair(app.listing, 2) == (0, 1)
