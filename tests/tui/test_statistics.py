"""The table of calls on the screen: by tool and by client, sorted, exported, with charts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import CaptureApp, DeskApp
from mcpdesk.tui.render.amounts import chart
from mcpdesk.tui.screens.statistics import StatisticsPane
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from tests.recorder.test_statistics import two_clients
from tests.support.driven import driven
from tests.support.frame import StubPane, quiet_link, running_frame, toasts
from tests.support.patience import until
from tests.support.traffic import IN, OPENED, OUT, call, connection, text


def lines(pane: StatisticsPane, width: int = 118) -> list[str]:
    return [
        "".join(text for text, _ in pane.listing.spans(at, width)) for at in range(pane.listing.row_count)
    ]


def detail(pane: StatisticsPane) -> str:
    return str(pane.query_one(".detail Static", Static).content)


async def shown(app: DeskApp, pilot: Pilot[None]) -> StatisticsPane:
    await until(lambda: app.main.pane is not None, pilot)
    await pilot.press("6")
    await until(lambda: any(pane.rows for pane in app.main.query(StatisticsPane)), pilot)
    return app.main.query_one(StatisticsPane)


@pytest.mark.slow
async def test_one_row_a_tool_and_below_it_who_calls_and_when() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        rows = [line.split()[0] for line in lines(pane)]
        assert rows[0] == "all" and set(rows) > {"user-profile", "slow-report"}
        at = rows.index("user-profile")
        pane.listing.cursor = at
        await pilot.pause()
        assert "called by: claude-code 2.1" in detail(pane) and "slowest call, at most" in detail(pane)
        assert "█" in detail(pane)
        await pilot.press("shift+right")
        await pilot.pause()
        assert {line.split()[0] for line in lines(pane)} >= {"all", "claude-code"}


@pytest.mark.slow
async def test_methods_are_sorted_by_their_requests_and_tools_by_their_calls() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        heads = pane.query_one(".heads", Static)
        for key, title in (("shift+left", "requests"), ("shift+right", "calls")):
            await pilot.press(key)
            await until(lambda: pane.rows and f"{title}↓" in str(heads.content), pilot)
            counts = [row.calls for row in pane.rows[1:]]
            assert counts == sorted(counts, reverse=True)


@pytest.mark.slow
async def test_heads_and_keys_sort_and_enter_leads_to_the_calls() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        heads = pane.query_one(".heads", Static)
        await pilot.click(heads, offset=(str(heads.content).index("name") + 1, 0))
        names = [row.name for row in pane.listing.rows[1:]]
        assert names == sorted(names, key=str.lower) and "name↑" in str(heads.content)
        pane.listing.cursor = 1 + names.index("user-profile")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.main.pane, StubPane) and app.main.pane.query_text == 'tool:"user-profile"'


@pytest.mark.slow
async def test_the_table_is_exported_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("w", "j")
        await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
        await pilot.press("enter")
        await until(lambda: any("written to" in toast for toast in toasts(app)), pilot)
        (file,) = tmp_path.glob("mcpdesk-tools-*.json")
        assert [row["name"] for row in json.loads(file.read_text())] == [row.name for row in pane.rows]


@pytest.mark.slow
async def test_on_a_large_screen_the_latest_calls_stand_below_the_charts() -> None:
    async with running_frame(size=(200, 60)) as (app, pilot):
        pane = await shown(app, pilot)
        pane.listing.cursor = [line.split()[0] for line in lines(pane)].index("user-profile")
        await until(lambda: "called by" in detail(pane), pilot)
        *_, told = detail(pane).partition("\n\nlatest calls\n")
        assert "claude-code 2.1" in told and "userId is required" in told and "slow-report" not in told
        assert len(detail(pane).splitlines()) <= pane.query_one(".detail").content_size.height


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120, 200])
async def test_name_calls_and_errors_are_seen_at_every_width(width: int) -> None:
    async with running_frame(size=(width, 24)) as (app, pilot):
        pane = await shown(app, pilot)
        heads = pane.query_one(".heads", Static)
        words = ("name", "calls", "errors", "p50", "p95")
        await until(lambda: all(word in str(heads.content) for word in words), pilot)
        assert len(str(heads.content).rstrip()) <= width
        assert all(len(line) <= width for line in detail(pane).splitlines()[3:])


@pytest.mark.slow
async def test_charts_are_drawn_again_for_another_size() -> None:
    def widest(pane: StatisticsPane) -> int:
        return max(len(line.rstrip()) for line in detail(pane).splitlines() if "█" in line)

    async with running_frame(size=(80, 24)) as (app, pilot):
        pane = await shown(app, pilot)
        pane.listing.cursor = [line.split()[0] for line in lines(pane)].index("user-profile")
        await until(lambda: "█" in detail(pane) and widest(pane) <= 80, pilot)
        await pilot.resize_terminal(200, 60)
        await until(lambda: "█" in detail(pane) and widest(pane) > 80, pilot)


@pytest.mark.slow
async def test_a_capture_has_them_too(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one.jsonl")
    recording.start()
    two_clients(recording)
    recording.close()
    app = CaptureApp(CaptureLink(Archive(tmp_path / "one.jsonl")))
    async with driven(app, size=(100, 30)) as pilot:
        pane = await shown(app, pilot)
        await until(lambda: len(pane.rows) == 3, pilot)
        assert [(row.name, row.calls, row.definition_tokens) for row in pane.rows] == [
            ("all calls", 10, 21),
            ("echo", 7, 21),
            ("other", 3, None),
        ]


@pytest.mark.slow
async def test_it_is_said_that_times_leave_out_what_a_call_waited_for_a_person(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "one.jsonl")
    recording.start()
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "refund"), at=OPENED)
    phases = Phases(OPENED + 10.5, handler=500_000, person=10_000_000)
    recording.frame(1, OUT, text(1, "done"), at=OPENED + 10.5, phases=phases)
    recording.close()
    app = CaptureApp(CaptureLink(Archive(tmp_path / "one.jsonl")))
    async with driven(app, size=(100, 30)) as pilot:
        pane = await shown(app, pilot)
        await until(lambda: "slowest 500 ms" in detail(pane), pilot)
        assert "without 10.0 s of waiting for people and clients" in detail(pane)


async def test_before_any_call_the_screen_says_what_comes_here() -> None:
    link = quiet_link()
    link.traffic = Recording(None).index
    link.catalogues = {}
    async with running_frame(link) as (app, pilot):
        await pilot.press("6")
        pane = app.main.query_one(StatisticsPane)
        await until(lambda: not pane.rows, pilot)


def test_a_chart_has_a_bar_a_cell_and_shows_everything_above_zero() -> None:
    assert chart([0.0, 1.0, 16.0], 3, 2) == ["  █", " ▁█"]
    assert chart([1.0, 2.0], 4, 1) == ["▄▄██"]
    assert chart([0.0, 5.0, 0.0, 0.0], 2, 1) == ["█ "]
    assert chart([], 3, 1) == ["   "]
