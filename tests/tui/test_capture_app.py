"""The screen of a capture has the traffic, and offers nothing that needs a server."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.actions import reachable
from mcpdesk.tui.capture_app import CaptureApp
from mcpdesk.tui.screens.frame_lines import DeskHeader
from mcpdesk.tui.screens.help import HelpScreen
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.tabs import DeskTabs
from tests.support.traffic import IN, OUT, call, connection, text
from tests.support.widgets import until


def app_on(path: Path, calls: int = 2) -> CaptureApp:
    recording = Recording(path)
    recording.start()
    recording.connect(connection(1))
    for number in range(calls):
        recording.frame(1, IN, call(number, "echo", {"password": "hunter2"}))
        recording.frame(1, OUT, text(number, "x"))
    recording.close()
    return CaptureApp(CaptureLink(Archive(path)))


def offered_by(app: CaptureApp) -> set[str]:
    return {found.action.id for found in reachable(app.main, app.main.pane)}


def said(line: DeskHeader | DeskTabs) -> str:
    return "".join(part.text.plain for part in line.parts)


async def test_a_capture_opens_on_its_traffic_under_its_name(tmp_path: Path) -> None:
    app = app_on(tmp_path / "a.jsonl")
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.main.pane is not None)
        pane = app.main.pane
        assert isinstance(pane, TrafficPane) and app.focused is pane.listing
        pane.show_view(app.link.view())
        assert len(pane.listing.view.lines) == 2
        assert "a.jsonl" in said(app.main.header) and "read only" in said(app.main.header)
        assert said(app.main.tabs).split() == ["2", "Traffic"]
        await pilot.press("1", "4", "a", "u")
        assert app.main.shown == "traffic" and not app._notifications


async def test_only_what_needs_no_server_is_offered(tmp_path: Path) -> None:
    wanted = {"traffic.copy", "traffic.compare", "app.ask_quit", "main.jump"}
    app = app_on(tmp_path / "a.jsonl")
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.main.pane is not None)
        await until(pilot, lambda: wanted <= offered_by(app))
        offered = offered_by(app)
        assert offered.isdisjoint(
            {"traffic.replay", "traffic.edit", "main.reload", "main.copy_url", "main.show_screen('logs')"}
        )


async def test_exchanges_are_copied_and_help_palette_and_quitting_work(tmp_path: Path) -> None:
    app = app_on(tmp_path / "a.jsonl")
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.main.pane is not None)
        app.main.pane.show_view(app.link.view())  # type: ignore[union-attr]
        await pilot.press("g", "y", "t")
        await app.workers.wait_for_complete()
        assert "••••" in app.clipboard and "hunter2" not in app.clipboard
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape", "ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, Menu)
        await pilot.press("escape", "ctrl+q")
        await pilot.pause()
        assert app.return_code == 0


async def test_a_capture_without_a_message_says_so(tmp_path: Path) -> None:
    app = app_on(tmp_path / "a.jsonl", calls=0)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.main.pane is not None)
        pane = app.main.pane
        assert isinstance(pane, TrafficPane)
        pane.show_view(app.link.view())
        assert "No message has passed" in "".join(cell for cell, _ in pane.listing.empty_text)
