"""The page about a server, and the pane of one that is not connected."""

from __future__ import annotations

from dataclasses import replace

from mcpdesk.link.values import Catalogue, UpstreamView
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.server_page import ServerScreen, server_text
from mcpdesk.tui.workbench.item_pane import FirstToolLesson
from tests.support.fake_link import FakeLink
from tests.support.frame import quiet_link, running_frame
from tests.support.widgets import until

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
    """A link to one server that runs elsewhere."""
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


async def test_a_server_that_cannot_be_reached_says_why_and_what_was_tried() -> None:
    async with running_frame(link_to(FAILED, "HTTP 500"), panes=PANES) as (app, pilot):
        lesson = app.screen.query_one(FirstToolLesson)
        await until(pilot, lambda: lesson.is_on_screen and lesson.size.height > 1)
        told = "\n".join(line.text for line in lesson.render_lines(lesson.size.region))
        assert "✕ not connected" in told and "✕ HTTP 500" in told and "mcpdesk login" in told
        assert "initialize: HTTP 500" in told
        assert "\x1b" not in told
        await pilot.press("I")
        assert isinstance(app.screen, ServerScreen)
