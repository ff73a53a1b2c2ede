"""The check-up on the desk: `v h` on the servers screen."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from mcpdesk.features.doctor import checkup
from mcpdesk.features.doctor.doctor_page import DoctorPage
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.widgets.section import EmptySectionText
from tests.features.doctor.conftest import Home, hostile, odd
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import screen_text, until

WRITES_PID = "import os, sys, time\nopen(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(600)"


@asynccontextmanager
async def doctor_page(size: tuple[int, int] = (160, 50)) -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    """A desk that shows the check-up."""
    async with running_frame(quiet_link(), size=size) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: app.main.shown == "servers" and "served" in screen_text(app), pilot)
        await pilot.press("v", "h")
        await until(lambda: isinstance(app.screen, DoctorPage), pilot)
        yield app, pilot


@pytest.mark.slow
async def test_untrusted_servers_are_listed_with_the_command_that_trusts_them(home: Home) -> None:
    path = home.cursor({"one": hostile("leak"), "two\x1b[2J": {"url": "http://example.com/mcp"}})
    async with doctor_page() as (app, pilot):
        await until(lambda: "2 not trusted" in screen_text(app), pilot)
        shown = screen_text(app)
        assert "cursor:one" in shown and "not started: not trusted" in shown
        assert "cursor:two␛[2J: unsafe: its URL has no TLS" in shown
        await pilot.press("y")
        await until(lambda: "copied the report" in toasts(app), pilot)
        assert f"trust the file: mcpdesk trust {path}\n" in app.clipboard
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)


@pytest.mark.slow
async def test_a_small_screen_shows_reasons_in_full_and_enter_the_hidden_columns(home: Home) -> None:
    name = "a-name-of-many-letters-" * 2
    home.cursor({"one": hostile("leak"), name: {"url": "http://example.com/mcp"}})
    async with doctor_page((80, 24)) as (app, pilot):
        await until(lambda: "2 not trusted" in screen_text(app), pilot)
        assert "tokens" not in screen_text(app)
        box = app.screen.query_one(".box")
        assert box.query_one(".table").region.right <= box.content_region.right
        assert "⏎ all facts" in screen_text(app)
        await pilot.press("enter")
        await until(lambda: "example.com/mcp ·" in screen_text(app), pilot)
        assert f"cursor:{name}: not started" in screen_text(app) and "⏎ table" in screen_text(app)
        await pilot.press("enter")
        await until(lambda: "example.com/mcp ·" not in screen_text(app), pilot)
        await pilot.resize_terminal(160, 50)
        await until(lambda: "other era" in screen_text(app), pilot)


@pytest.mark.slow
async def test_broken_settings_are_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPDESK_CONNECT_TIMEOUT_S", "never")
    async with doctor_page((80, 24)) as (app, pilot):
        await until(lambda: "never" in screen_text(app), pilot)
        monkeypatch.delenv("MCPDESK_CONNECT_TIMEOUT_S")
        home.cursor({"one": hostile("leak")})
        await pilot.press("r")
        await until(lambda: "1 not trusted" in screen_text(app), pilot)


@pytest.mark.slow
async def test_an_unexpected_error_is_shown_and_the_check_can_be_repeated(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    home.cursor({"one": hostile("leak")})
    with monkeypatch.context() as patched:
        patched.setattr(checkup, "check_up", broken)
        async with doctor_page() as (app, pilot):
            await until(lambda: "mcpdesk has a bug: the check-up failed." in screen_text(app), pilot)
            patched.undo()
            await pilot.press("r")
            await until(lambda: "1 not trusted" in screen_text(app), pilot)


@pytest.mark.slow
async def test_the_check_up_is_available_on_a_desk_without_servers(home: Home) -> None:
    link = quiet_link()
    link.core = replace(link.core, servers=(), clients=())
    link.recording = Recording(None)
    link.traffic = link.recording.index
    async with running_frame(link) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: isinstance(app.focused, EmptySectionText), pilot)
        await pilot.press("v", "h")
        await until(lambda: isinstance(app.screen, DoctorPage), pilot)


@pytest.mark.process
async def test_page_shows_the_result_of_each_server_and_repeats_the_check(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPDESK_TRUST", "1")
    home.cursor({"good": odd(), "brief": odd("brief")})
    async with doctor_page() as (app, pilot):
        await until(lambda: "1 ok, 1 failed" in screen_text(app), pilot)
        assert "stderr: no configuration" in screen_text(app)
        home.cursor({"good": odd()})
        await pilot.press("r")
        await until(lambda: "1 server: 1 ok" in screen_text(app), pilot)


@pytest.mark.process
async def test_closing_the_page_ends_the_programs(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPDESK_TRUST", "1")
    file = tmp_path / "pid"
    home.cursor({"hangs": {"command": sys.executable, "args": ["-c", WRITES_PID, str(file)]}})
    async with doctor_page() as (app, pilot):
        await until(lambda: file.exists() and file.read_text() != "", pilot)
        pid = int(file.read_text())
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        await until(lambda: not _runs(pid), pilot)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
