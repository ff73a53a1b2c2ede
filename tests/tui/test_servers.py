"""The overview of all servers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from mcpdesk.link.values import Catalogue, CoreView, LogLine, Protection, ServerView, UpstreamView
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import CaptureApp, DeskApp
from mcpdesk.tui.screens.servers import ServersPane
from tests.support.driven import driven
from tests.support.fake_link import FakeLink
from tests.support.features import needs_feature
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import screen_text, until

REASON = "the program ended before it answered:\nnpm error code E404\nnpm error 404 Not Found"


def upstream(name: str, state: str = "ready", *problems: str, **about: Any) -> ServerView:
    """An upstream server in a state."""
    of = UpstreamView(**{"location": "npx -y some-server", "state": state, "revision": "2025-11-25"} | about)
    return ServerView(name, name, "1.0", "", "", 1, problems, upstream=of)


def link_to(*servers: ServerView) -> FakeLink:
    """The sample, and more servers."""
    link = quiet_link()
    link.core = replace(link.core, servers=(*link.core.servers, *servers))
    for one in servers:
        link.catalogues[one.name] = Catalogue(one.name, 1, ())
    return link


@asynccontextmanager
async def servers_of(
    link: FakeLink, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[DeskApp, Pilot[None], ServersPane]]:
    """A desk that shows its servers."""
    async with running_frame(link, size=size) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: app.main.shown == "servers" and "served" in screen_text(app), pilot)
        pane = app.main.pane
        assert isinstance(pane, ServersPane)
        yield app, pilot, pane


def row_of(app: DeskApp, words: str) -> str:
    """The first row of the screen with some words."""
    return next((row for row in screen_text(app).splitlines() if words in row), "")


async def test_a_server_that_is_down_gives_its_reason_in_full_and_the_header_counts_it() -> None:
    link = link_to(upstream("mail", "failed", REASON), upstream("web"), upstream("cash", "ended", "code 3"))
    async with servers_of(link) as (app, pilot, pane):
        assert "✕ 2 down" in screen_text(app).splitlines()[0]
        assert "✕ ended" in row_of(app, " cash ") and "code 3" in row_of(app, " cash ")
        web = row_of(app, " web ")
        assert "● connected" in web and "2025-11-25" in web
        await app.main.action_servers("down")
        assert pane.selected_server == "mail"
        await until(lambda: "npm error code E404" in screen_text(app), pilot)
        assert all(line in screen_text(app) for line in REASON.splitlines())


async def test_secrets_in_the_command_of_a_program_are_masked_and_its_transport_is_stdio() -> None:
    command = "postgres-mcp --api-key sk-live-4242abcdef postgresql://shop:hunter2@db.internal/shop"
    link = link_to(upstream("shop", "failed", "it ended", location=command))
    async with servers_of(link, (200, 40)) as (app, pilot, pane):
        await pilot.press("end")
        await until(lambda: "postgresql://shop:••••@db.internal/shop" in screen_text(app), pilot)
        assert " stdio " in row_of(app, "shop      ✕ not connected")
        await pilot.press("enter")
        await until(lambda: app.server == "shop" and app.main.shown != "servers", pilot)
        assert "postgresql://shop:••••@" in screen_text(app).splitlines()[0]
        assert "hunter2" not in screen_text(app) and "sk-live" not in screen_text(app)
        row = next(line for line in pane.listing.rows if line.name == "shop")
        location = next(each for each in pane.copy_choices(row) if each.label == "location")
        assert location.value == command and "hunter2" not in location.hint


async def test_a_disabled_server_is_shown_with_the_reason_and_does_not_count_as_down() -> None:
    reason = "it is disabled in /home/ada/.cursor/mcp.json."
    async with servers_of(link_to(upstream("off", "disabled", reason))) as (app, _, _):
        assert "down" not in screen_text(app).splitlines()[0]
        assert "○ disabled" in row_of(app, " off ") and "it is disabled in" in row_of(app, " off ")


@pytest.mark.slow
async def test_enter_makes_a_server_the_current_one_and_shows_the_screen_before() -> None:
    async with running_frame(link_to(upstream("web"))) as (app, pilot):
        await pilot.press("5", "g", "s")
        await until(lambda: "web" in screen_text(app), pilot)
        await pilot.press("end", "enter")
        await until(lambda: app.main.shown == "logs", pilot)
        assert app.server == "web"
        await pilot.press("g", "s", "escape")
        await until(lambda: app.main.shown == "logs", pilot)


async def test_actions_apply_to_the_selected_server_and_not_to_the_current_one() -> None:
    link = link_to(upstream("web", location="https://example.com/mcp", state="failed", hint="Log in."))
    async with servers_of(link) as (app, pilot, _):
        await pilot.press("end", "r")
        assert link.reloads == ["web"] and app.server == "profiles"
        assert toasts(app)[-1] == "Connecting to web again."
        await pilot.press("v", "d")
        await until(lambda: "web: before the first save" in screen_text(app), pilot)
        await pilot.press("escape", "x")
        await until(lambda: "Remove web?" in screen_text(app), pilot)


@pytest.mark.slow
async def test_the_last_stderr_line_of_a_server_is_shown_cleaned() -> None:
    link = link_to(upstream("web"))
    link.log_lines = [
        LogLine(at, time.time(), "info", "stderr", f"line {at} \x1b[31mred", server="web") for at in range(3)
    ]
    async with servers_of(link) as (app, pilot, _):
        assert "line 2 ␛[31mred" in row_of(app, " web ")
        await pilot.press("end")
        await until(lambda: "Latest output" in screen_text(app) and "line 0 " in screen_text(app), pilot)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_fifty_servers_with_long_names_are_told_apart(size: tuple[int, int]) -> None:
    names = [f"company-production-eu-west-{at:02}-inventory-service-with-replicas-main" for at in range(8)]
    names += [f"日本語のとても長いサーバー名前です{at}と続く名前の残りの部分ですよね" for at in range(2)]
    names += [f"שרת-עברי-ארוך-מאוד-עם-שם-של-שישים-תווים-{at}" for at in range(2)]
    names += [f"more-{at}" for at in range(38)]
    async with servers_of(link_to(*(upstream(one, "failed", REASON) for one in names)), size) as (
        app,
        _,
        pane,
    ):
        width = pane.listing.size.width
        rows = [
            "".join(text for text, _ in pane.listing.spans(at, width)) for at in range(pane.listing.row_count)
        ]
        assert len({row.split("✕")[0] for row in rows if "✕" in row}) == len(names)
        assert "✕ 50 down" in screen_text(app)
        assert all(row.rstrip().endswith("Not Found") or "✕" not in row for row in rows)


async def test_a_folder_without_a_working_item_is_down_and_one_with_some_has_problems() -> None:
    link = quiet_link()
    one, other = (replace(each, problems=("mcp.json:3: no name",)) for each in link.core.servers)
    link.core = replace(link.core, servers=(one, other))
    link.catalogues[other.name] = Catalogue(other.name, 1, ())
    async with running_frame(link) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: "▲ has problems" in row_of(app, "▸profiles"), pilot)
        assert "✕ not served" in row_of(app, " hello ") and "✕ 1 down" in screen_text(app)


async def test_a_capture_lists_the_servers_in_it_and_enter_shows_their_messages() -> None:
    link = quiet_link()
    link.core = CoreView((), (), Protection.OFFLINE, capture_path="/tmp/a.mcpd")
    app = CaptureApp(link)
    async with driven(app, size=(120, 40)) as pilot:
        await until(lambda: app.main.shown == "traffic", pilot)
        await app.main.action_servers()
        await until(lambda: "○ recorded" in row_of(app, "profiles"), pilot)
        await pilot.press("r", "x", "enter")
        await until(lambda: app.main.shown == "traffic", pilot)
        assert link.reloads == [] and "server:" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_footer_has_the_key_that_adds_a_server(size: tuple[int, int]) -> None:
    async with servers_of(link_to(upstream("web")), size) as (app, _, _):
        footer = " ".join(screen_text(app).splitlines()[-2:])
        assert "^n add a server" in footer and "? help" in footer


@pytest.mark.slow
async def test_an_equal_traceback_of_another_start_is_shown_once() -> None:
    link = link_to(upstream("web", "ended", "exit code 1"))
    texts = ["Traceback (most recent call last):\nKeyError: 'TEA'", "starting"]
    link.log_lines = [
        LogLine(at, time.time(), "error", "stderr", texts[at % 2], server="web") for at in range(4)
    ]
    async with servers_of(link) as (app, pilot, _):
        await pilot.press("end")
        await until(lambda: "Latest output" in screen_text(app), pilot)
        assert screen_text(app).count("KeyError: 'TEA'") == 1
        assert "×2 Traceback" in screen_text(app) and "×2 starting" in screen_text(app)


@needs_feature("doctor")
async def test_an_empty_list_names_the_check_up_of_all_clients() -> None:
    link = quiet_link()
    link.core = replace(link.core, servers=(), clients=())
    link.recording = Recording(None)
    link.traffic = link.recording.index
    async with running_frame(link) as (app, pilot):
        await pilot.press("g", "s")
        await until(lambda: "Press v h to check the servers of all your clients." in screen_text(app), pilot)
