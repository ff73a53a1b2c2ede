"""The application: the way out, the clipboard, themes on the screen, tiny terminals."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from textual import events
from textual.widgets import Static

from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui import app as module
from mcpdesk.tui.actions import reachable
from mcpdesk.tui.app import MAX_NEWS_ITEMS, CaptureApp, DeskApp
from mcpdesk.tui.screens.frame_lines import DeskHeader, DeskTabs
from mcpdesk.tui.screens.overlays import HelpScreen
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets.menu import Menu
from tests.support.driven import driven
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import WITHIN_S, screen_lines, until
from tests.support.traffic import IN, OUT, call, connection, text

LOSSES = ("2 running calls", "1 connected client")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("losses", "keys", "stays"),
    [
        ((), ["ctrl+q"], False),
        (LOSSES, ["ctrl+q", "escape"], True),
        (LOSSES, ["ctrl+q", "enter"], True),
        (LOSSES, ["ctrl+q", "ctrl+q", "n"], True),
        (LOSSES, ["ctrl+q", "y"], False),
    ],
)
async def test_quitting_asks_once_when_something_would_be_lost(
    losses: tuple[str, ...], keys: list[str], stays: bool
) -> None:
    link = quiet_link()
    link.losses = losses
    async with running_frame(link) as (app, pilot):
        await pilot.press(keys[0])
        if losses:
            menu: object = app.screen
            assert isinstance(menu, Menu) and "2 running calls, 1 connected client" in menu.choices[1].hint
        await pilot.press(*keys[1:])
        await pilot.pause()
        assert app.is_running == stays
        assert not stays or app.screen is app.main


@pytest.mark.slow
@pytest.mark.parametrize("first", ["3", "question_mark"], ids=["screen", "dialog"])
async def test_first_ctrl_c_warns_and_the_second_quits(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECOND_QUIT_S", WITHIN_S)
    link = quiet_link()
    link.losses = ("1 running call",)
    async with running_frame(link) as (app, pilot):
        await pilot.press(first, "ctrl+c")
        assert app.is_running and "Ctrl+C again" in toasts(app)[-1]
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert not app.is_running


async def test_ctrl_c_copies_what_is_selected_in_an_input() -> None:
    async with running_frame() as (app, pilot):
        field = app.main.query_one("#field")
        field.focus()
        await pilot.press(*"abc", "shift+home", "ctrl+c", "ctrl+c")
        assert app.is_running and app.clipboard == "abc"


async def test_copying_goes_out_as_osc_52_and_says_what_was_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_frame() as (app, pilot):
        written: list[str] = []
        with monkeypatch.context() as patch:
            patch.setattr(app._driver, "write", written.append)
            app.copy("[b]text", "[b]this[/x]")
        assert written == ["\x1b]52;c;W2JddGV4dA==\x07"]
        await pilot.pause()
        assert app.clipboard == "[b]text" and toasts(app) == ["copied [b]this[/x]"]
        app.copy("x" * 100_000, "much")
        await pilot.pause()
        assert toasts(app)[-1] == "copied much (long: some terminals refuse)"


@pytest.mark.slow
@pytest.mark.parametrize("size", [(20, 5), (1, 1), (39, 40), (120, 9)])
async def test_tiny_terminal_shows_a_message_and_survives(size: tuple[int, int]) -> None:
    async with running_frame(size=size) as (app, pilot):
        await pilot.press(
            "2", "4", "5", "question_mark", "escape", "ctrl+p", "escape", "space", "escape", "ctrl+o"
        )
        await pilot.press("escape", "z", "z")
        await pilot.pause()
        assert app.main.has_class("-too-small") and app.main.query_one("#too-small").display
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert not app.main.has_class("-too-small") and not app.main.query_one("#too-small").display


@pytest.mark.slow
async def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_frame(theme="plum") as (app, pilot):
        await pilot.press("5")
        await pilot.pause()
        styles = re.findall(r"-r\d+ \{ fill: #(..)(..)(..)", app.export_screenshot())
        default = ("c5", "c8", "c6")
        assert len(styles) > 3 and all(len(set(rgb)) == 1 for rgb in styles if rgb != default), styles


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["night", "terminal"])
async def test_without_colour_tab_and_cursor_are_told_by_their_style(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_frame(theme="paper") as (app, pilot):
        await until(lambda: theme in app.available_themes, pilot)
        app.theme = theme
        await pilot.press("4")
        await pilot.pause()
        app.main.refresher.refresh()
        await pilot.pause()
        lines = app.main._compositor.render_strips()
        reversed_text = ["".join(s.text for s in line if s.style and s.style.reverse) for line in lines]
        assert "4 Clients" in reversed_text[1] and any("claude-code" in text for text in reversed_text)
        colours = [s.style.color for line in lines for s in line if s.style and s.style.color]
        assert all(c.is_default or len(set(c.get_truecolor())) == 1 for c in colours)


class BreakingDesk(DeskApp):
    def server_is_painted(self) -> None:
        token = "".join(("s3cr", "3t"))
        raise RuntimeError(f"\x1b]0;T\x07 {len(token)}")


class LeavingDesk(DeskApp):
    def server_is_painted(self) -> None:
        self.exit()
        raise RuntimeError("the widgets are closed")


@pytest.mark.slow
async def test_what_fails_while_the_screen_is_left_is_no_crash() -> None:
    app = LeavingDesk(quiet_link())
    with pytest.raises(RuntimeError):
        async with driven(app) as pilot:
            await pilot.pause(5)
    assert app.crash is None


class HangingDesk(DeskApp):
    def server_is_painted(self) -> None:
        self.main.call_later(asyncio.Event().wait)
        self.set_timer(0.1, self.exit)


@pytest.mark.slow
def test_what_hangs_does_not_keep_the_screen_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_TIMEOUT_S", 0.2)
    app = HangingDesk(quiet_link())
    screen = Thread(target=partial(app.run, headless=True), daemon=True)
    screen.start()
    screen.join(20)
    assert not screen.is_alive() and app.crash is None


@pytest.mark.slow
async def test_a_crash_report_shows_no_local_values_and_commands_no_terminal() -> None:
    app = BreakingDesk(quiet_link())
    with pytest.raises(RuntimeError):
        async with driven(app) as pilot:
            await pilot.pause(5)
    assert app.crash is not None and "s3cr3t" not in app.crash.report
    assert "in server_is_painted" in app.crash.report and "RuntimeError: ␛]0;T␇ 6" in app.crash.report


@pytest.mark.slow
async def test_a_click_on_a_widget_that_was_just_removed_ends_nothing() -> None:
    async with running_frame() as (app, pilot):
        gone = Static("going")
        gone.styles.dock = "top"
        await app.screen.mount(gone)
        await pilot.pause()
        x, y = gone.region.offset
        await gone.remove()
        for kind in (events.MouseDown, events.MouseUp):
            app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
        await pilot.pause()
        assert app.is_running


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


@pytest.mark.slow
async def test_a_capture_opens_on_its_traffic_under_its_name(tmp_path: Path) -> None:
    app = app_on(tmp_path / "a.jsonl")
    async with driven(app, size=(120, 40)) as pilot:
        await until(lambda: app.main.pane is not None, pilot)
        pane = app.main.pane
        assert isinstance(pane, TrafficPane) and app.focused is pane.listing
        pane.show_view(app.link.view())
        assert len(pane.listing.view.lines) == 2
        assert "a.jsonl" in said(app.main.header) and "read only" in said(app.main.header)
        assert said(app.main.tabs).split() == ["2", "Traffic", "6", "Statistics"]
        await pilot.press("1", "4", "a", "u")
        assert app.main.shown == "traffic" and not app._notifications
        await pilot.press("ctrl+o", "5", "ctrl+o", "6")
        await until(lambda: app.main.shown == "statistics", pilot)


@pytest.mark.slow
async def test_only_what_needs_no_server_is_offered(tmp_path: Path) -> None:
    wanted = {"traffic.copy", "traffic.compare", "app.ask_quit", "main.jump"}
    app = app_on(tmp_path / "a.jsonl")
    async with driven(app) as pilot:
        await until(lambda: app.main.pane is not None, pilot)
        await until(lambda: wanted <= offered_by(app), pilot)
        offered = offered_by(app)
        assert offered.isdisjoint(
            {"traffic.replay", "traffic.edit", "main.reload", "main.copy_url", "main.show_screen('logs')"}
        )


@pytest.mark.slow
async def test_exchanges_are_copied_and_help_palette_and_quitting_work(tmp_path: Path) -> None:
    app = app_on(tmp_path / "a.jsonl")
    async with driven(app) as pilot:
        await until(lambda: app.main.pane is not None, pilot)
        app.main.pane.show_view(app.link.view())  # type: ignore[union-attr]
        await pilot.press("home", "y", "t")
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


@pytest.mark.slow
@pytest.mark.parametrize(("size", "at"), [((80, 24), -2), ((120, 39), -2), ((120, 40), -3)])
async def test_news_have_a_row_of_their_own_above_the_keys(
    size: tuple[int, int], at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeskApp, "NOTIFICATION_TIMEOUT", 600)  # all of them came a moment ago
    async with running_frame(size=size) as (app, pilot):

        def rows() -> list[str]:
            return screen_lines(app)

        def other_rows() -> str:
            return "".join(row for place, row in enumerate(rows()) if place != len(rows()) + at)

        app.notify("first " * 40 + "and last", markup=False)
        await until(lambda: "first first" in rows()[at] and "and last · ! shows all" in rows()[at], pilot)
        assert "…" in rows()[at], "the middle is left out, and neither the beginning nor the end"
        assert "first" not in other_rows() and "palette" in rows()[-1]
        app.notify("second news", markup=False)
        await until(lambda: "second news · ! shows 1 more" in rows()[at], pilot)
        assert "first" not in "".join(rows())
        app.clear_notifications()
        await until(lambda: "palette" in rows()[-1] and not app.screen.query("Toast"), pilot)
        assert "second news" in rows()[at] and "! messages" in rows()[at], "it stays"
        await pilot.press("exclamation_mark")
        await until(lambda: sum(row.count("first") for row in rows()[:-1]) == 40, pilot)
        await pilot.press("escape")
        app.notify("the reason", severity="error", markup=False)
        app.notify("copied", markup=False)
        await until(lambda: "copied · ! shows 3 more, 1 error" in rows()[at], pilot)
        app.show_all_news([("one", "information", ""), ("grave", "error", ""), ("three", "warning", "")])
        await until(lambda: "grave · ! shows 6 more, 1 error" in rows()[at], pilot)
        for number in range(MAX_NEWS_ITEMS):
            app.notify(f"news {number}", markup=False)
        await pilot.press("exclamation_mark", "end")
        await until(lambda: "7 older messages are no longer stored" in "".join(rows()), pilot)


@pytest.mark.slow
async def test_news_are_cut_to_the_width_of_the_moment_and_older_ones_do_not_come_back() -> None:
    async with running_frame(size=(80, 30)) as (app, pilot):

        def row() -> str:
            return screen_lines(app)[-2]

        app.show_news("long " * 18, "warning", " · v d compares")
        await until(lambda: "…" in row() and " · v d compares · ! shows all" in row(), pilot)
        await pilot.resize_terminal(130, 30)
        await until(lambda: row().count("long") == 18 and "v d compares" in row(), pilot)
        app.notify("newer", timeout=0.01, markup=False)
        await until(lambda: not app.screen.query("Toast"), pilot)
        assert "newer" in row() and "long" not in row()
        app.show_news("long " * 18, "information", timeout_s=0.01)
        await until(lambda: row().count("long") == 18 and not app.screen.query("Toast"), pilot)
        await pilot.resize_terminal(80, 30)
        await until(lambda: 0 < row().count("long") < 18 and "! messages" in row(), pilot)
        assert not app.screen.query("Toast")


@pytest.mark.process
@pytest.mark.parametrize(("given", "used"), [("", "240"), ("30", "30")])
def test_what_changed_is_drawn_at_once_unless_the_environment_says_how_often(given: str, used: str) -> None:
    code = (
        "import mcpdesk.tui.app, os; from textual.constants import MAX_FPS; print(MAX_FPS, len(os.environ))"
    )
    known = {name: value for name, value in os.environ.items() if name != "TEXTUAL_FPS"}
    environment = known | ({"TEXTUAL_FPS": given} if given else {})
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, timeout=60)
    assert said.split() == [used, str(len(environment))]
