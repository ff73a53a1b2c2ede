"""The menu that hands out client configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mcpdesk.link.values import ModeView
from mcpdesk.tui.screens.clients import CONFIG_TARGETS, ConfigTarget, targets_for
from tests.support.frame import quiet_link, running_frame, toasts


@pytest.mark.parametrize(("number", "client"), list(enumerate(CONFIG_TARGETS, 1)))
async def test_each_client_gets_its_own(number: int, client: ConfigTarget) -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("U", str(number))
        await pilot.pause()
        assert app.clipboard.endswith(f"// {client.name} {client.over}") and "/mcp/profiles" in app.clipboard
        assert toasts(app) == [f"copied the configuration for {client.title}"]


async def test_escape_copies_nothing() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("U", "escape")
        await pilot.pause()
        assert app.clipboard == "" and app.screen is app.main


async def test_a_server_with_modes_is_offered_with_the_tools_of_one() -> None:
    link = quiet_link()
    first = replace(link.core.servers[0], modes=(ModeView("review", "", ("a", "b")),))
    link.core = replace(link.core, servers=(first, *link.core.servers[1:]))
    async with running_frame(link) as (app, pilot):
        await pilot.press("U", "1")
        await pilot.pause()
        await pilot.press("1")
        await pilot.pause()
        assert app.clipboard.endswith("// claude-code http review")
        assert toasts(app) == ["copied the configuration for Claude Code in the mode review"]
        await pilot.press("U", "1")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert app.clipboard.endswith("review") and app.screen is app.main


def test_a_socket_is_for_curl_and_for_clients_that_start_a_command() -> None:
    server = replace(quiet_link().core.servers[0], url="unix:/run/x.sock")
    assert {one.title for one in targets_for(server) if one.over == "http"} == {"curl"}
    assert {one.over for one in targets_for(replace(server, url=""))} == {"stdio"}
