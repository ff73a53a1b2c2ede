"""The steps of a login on the desk: `v t` on the servers screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.features.doctor.login_lane import CheckLogin, LoginLanes
from mcpdesk.features.doctor.login_page import LoginPage
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.screens.servers import ServersPane
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.driven import driven
from tests.support.frame import toasts
from tests.support.guarded_server import GuardedServer, SilentServer
from tests.support.patience import screen_text, until


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store tokens in the state folder of the test."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@asynccontextmanager
async def _servers_screen(desk: RunningDesk) -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    app = DeskApp(desk)
    async with driven(app, size=(120, 60)) as pilot:
        await pilot.press("g", "s")
        await until(lambda: app.main.shown == "servers", pilot)
        await until(lambda: app.screen.query_one(ServersPane).selected_server, pilot)
        yield app, pilot


@pytest.mark.slow
async def test_key_shows_each_step_and_repeats_the_check(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        plan = UpstreamPlan("far", UrlTarget(server.url))
        async with (
            running_desk(upstreams=[plan], state_dir=tmp_path) as desk,
            _servers_screen(desk) as (app, pilot),
        ):
            await pilot.press("v", "t")
            await until(lambda: isinstance(app.screen, LoginPage), pilot)
            await until(
                lambda: f"A person must log in: mcpdesk login {server.url}" in screen_text(app), pilot
            )
            assert "1. request: ok" in screen_text(app)
            server.changes["server"] = lambda document: document.update(issuer="https://evil.test")
            await pilot.press("r")
            await until(lambda: "authorization server metadata: broken" in screen_text(app), pilot)
            assert "RFC 8414, 3.3" in screen_text(app)
            await pilot.press("y")
            await until(lambda: "copied the report" in toasts(app), pilot)
            assert "names the issuer 'https://evil.test'" in app.clipboard
            await pilot.press("escape")
            await until(lambda: app.screen is app.main, pilot)
    assert not server.registrations


@pytest.mark.slow
async def test_key_reports_that_a_check_of_the_server_is_running(tmp_path: Path) -> None:
    server = SilentServer()
    async with server.running():
        plan = UpstreamPlan("far", UrlTarget(server.url))
        async with (
            running_desk(upstreams=[plan], state_dir=tmp_path) as desk,
            _servers_screen(desk) as (app, pilot),
        ):
            await pilot.press("v", "t")
            await until(lambda: isinstance(app.screen, LoginPage), pilot)
            await pilot.press("r")
            await pilot.press("t")
            await until(lambda: any("A check is running" in text for text in toasts(app)), pilot)
            assert len(toasts(app)) == 1
            server.released.set()
            await until(lambda: desk.feature_part(LoginLanes).of("far").number == 1, pilot)


@pytest.mark.slow
async def test_program_has_no_login(tmp_path: Path) -> None:
    plan = UpstreamPlan("near", CommandTarget(("/no/such/program",)))
    async with (
        running_desk(upstreams=[plan], state_dir=tmp_path) as desk,
        _servers_screen(desk) as (app, pilot),
    ):
        await pilot.press("v", "t")
        await until(lambda: any("near has no login" in text for text in toasts(app)), pilot)
        assert desk.feature_part(LoginLanes).servers == ()
        with pytest.raises(ValueError, match="near has no login"):
            desk.do(CheckLogin("near")).result(10)
