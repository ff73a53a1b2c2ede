"""The page about a server, and the pane of one that is not connected."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.link.values import Catalogue, UpstreamView
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.palette_dialog import Palette
from mcpdesk.tui.screens.server_page import ServerScreen, server_choice, server_text
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.workbench.item_pane import FirstToolInstructions
from tests.support.action_menu import choose_action
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, running_frame, toasts
from tests.support.patience import until

FAILED = UpstreamView(
    "npx -y \x1b[31msome-server",
    "failed",
    ("server/discover: error -32601: no", "initialize: HTTP 500"),
    "Log in with `mcpdesk login`.",
)
READY = UpstreamView(
    "https://example.com/mcp",
    "ready",
    revision="2026-07-28",
    instructions="Be gentle.",
    capabilities={"tools": {"listChanged": True}, "extensions": {"com.example/odd": {}}},
)


def link_to(upstream: UpstreamView, *problems: str) -> FakeLink:
    """A link to one upstream server."""
    link = quiet_link()
    server = replace(
        link.core.servers[0], title="Some server", folder="", url="", problems=problems, upstream=upstream
    )
    link.core = replace(link.core, servers=(server,))
    link.catalogues[server.name] = Catalogue(server.name, 9, ())
    return link


def test_a_page_says_what_the_server_says_of_itself() -> None:
    text = server_text(link_to(READY).core.servers[0]).plain
    told = ("● connected · 2026-07-28", "https://example.com/mcp", "tools: listChanged")
    assert all(each in text for each in (*told, "extension com.example/odd", "Be gentle."))


def test_a_page_names_the_functions_that_are_helpers() -> None:
    told = "tools/shared.py:1: double is not offered"
    server = replace(FakeLink().core.servers[0], helpers=(told,))
    assert f"· {told}" in server_text(server).plain


@pytest.mark.slow
async def test_a_server_that_cannot_be_reached_says_why_and_what_was_tried() -> None:
    async with running_frame(link_to(FAILED, "HTTP 500"), panes=PANES) as (app, pilot):
        lesson = app.screen.query_one(FirstToolInstructions)
        await until(lambda: lesson.is_on_screen and lesson.size.height > 1, pilot)
        told = "\n".join(line.text for line in lesson.render_lines(lesson.size.region))
        assert "✕ not connected" in told and "✕ HTTP 500" in told and "mcpdesk login" in told
        assert "initialize: HTTP 500" in told
        assert "\x1b" not in told
        await choose_action(pilot, "about the server")
        assert isinstance(app.screen, ServerScreen)


@pytest.mark.parametrize(
    ("changes", "hint", "reason"),
    [
        ({"upstream": READY}, "https://example.com/mcp", ""),
        (
            {"upstream": FAILED, "problems": ("HTTP 500",)},
            "✕ not connected · HTTP 500",
            "HTTP 500. Log in with `mcpdesk login`.",
        ),
        (
            {"upstream": replace(FAILED, state="ended", hint=""), "problems": ("it exited with code 3",)},
            "✕ ended · it exited with code 3",
            "it exited with code 3",
        ),
        ({"problems": ("mcp.json:3:\nno name",)}, "✕ mcp.json:3: no name", "mcp.json:3: no name"),
    ],
    ids=["ready", "failed", "ended", "withheld"],
)
def test_the_palette_gives_the_reason_why_a_server_is_down(
    changes: dict[str, Any], hint: str, reason: str
) -> None:
    server = replace(FakeLink().core.servers[0], **changes)
    choice = server_choice(server)
    assert (choice.label, choice.hint, choice.help) == (server.name, hint, reason)


@pytest.mark.slow
async def test_another_revision_is_chosen_from_the_page_of_a_server() -> None:
    link = link_to(READY)
    async with running_frame(link, panes=PANES) as (app, pilot):
        await until(lambda: app.server == "profiles", pilot)
        await choose_action(pilot, "about the server")
        await until(lambda: isinstance(app.screen, ServerScreen), pilot)
        await pilot.press("space")
        await until(lambda: isinstance(app.screen, Menu), pilot)
        await pilot.press("enter")
        await until(lambda: isinstance(app.screen, Menu) and app.screen.listing.cursor == 1, pilot)
        await pilot.press("down", "enter")
        await until(lambda: link.spoken == [("profiles", "2025-11-25")], pilot)
        await until(lambda: toasts(app)[-1:] == ["Reconnecting to profiles with 2025-11-25."], pilot)


async def test_of_a_folder_the_setting_of_the_revision_is_named() -> None:
    async with running_frame(size=(80, 24)) as (app, pilot):
        await until(lambda: app.server == "profiles", pilot)
        await choose_action(pilot, "revision")
        await until(lambda: any("desk_revision" in text for text in toasts(app)), pilot)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["revision", "protocol", "2025"])
async def test_the_palette_finds_the_revision(words: str) -> None:
    link = link_to(READY)
    async with running_frame(link, panes=PANES) as (app, pilot):
        await until(lambda: app.server == "profiles", pilot)
        await pilot.press("ctrl+p")
        await until(lambda: isinstance(app.screen, Palette) and app.screen.is_mounted, pilot)
        await pilot.press(*words)
        found = app.screen
        assert isinstance(found, Palette)
        await until(lambda: "another revision" in str(found.listing.selected), pilot)
