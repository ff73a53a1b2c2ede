"""The menu that hands out client configurations."""

from __future__ import annotations

import pytest

from mcpdesk.tui.client_configs import CLIENTS
from tests.support.frame import running_frame, toasts


@pytest.mark.parametrize(("number", "client"), list(enumerate(CLIENTS, 1)))
async def test_each_client_gets_its_own(number: int, client: tuple[str, str, str]) -> None:
    name, title, _ = client
    async with running_frame() as (app, pilot):
        await pilot.press("U", str(number))
        await pilot.pause()
        assert app.clipboard.endswith(f"// {name}") and "/mcp/profiles" in app.clipboard
        assert toasts(app) == [f"copied the configuration for {title}"]


async def test_escape_copies_nothing() -> None:
    async with running_frame() as (app, pilot):
        await pilot.press("U", "escape")
        await pilot.pause()
        assert app.clipboard == "" and app.screen is app.main
