"""A server folder with an app for hosts that can show one, and text for all other clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise

from tests.support.desk import running_desk
from tests.support.folders import write

UI = "io.modelcontextprotocol/ui"
APP = "text/html;profile=mcp-app"
TOOLS = f'''
from mcpdesk import Context, tool


@tool(meta={{"ui": {{"resourceUri": "ui://clock", "visibility": ["model", "app"]}}}})
async def clock(ctx: Context) -> str:
    """Show a clock, or say the time."""
    shown = ctx.offers({{"extensions": {{"{UI}": {{}}}}}})
    return "see the clock" if shown else "it is noon"
'''
RESOURCES = f'''
from mcpdesk import resource

CSP = {{"ui": {{"csp": {{"connectDomains": ["https://example.org"]}}, "prefersBorder": True}}}}


@resource("ui://clock", mime_type="{APP}")
async def clock(uri: str) -> list[dict]:
    """The page of the clock."""
    return [{{"uri": uri, "mimeType": "{APP}", "text": "<!doctype html><p>12:00", "_meta": CSP}}]
'''
both_eras = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@asynccontextmanager
async def connected(tmp_path: Path, mode: str, shows: bool) -> AsyncIterator[Client]:
    folder = write(tmp_path / "clocks", {"tools/clock.py": TOOLS, "resources/clock.py": RESOURCES})
    extensions = [advertise(UI, {"mimeTypes": [APP]})] if shows else []
    async with (
        running_desk(folder, http=True) as desk,
        Client(desk.view().servers[0].url, mode=mode, extensions=extensions) as client,
    ):
        yield client


@pytest.mark.sampled(2)
@pytest.mark.requirement("9.1")
@both_eras
@pytest.mark.parametrize(("shows", "said"), [(True, "see the clock"), (False, "it is noon")])
async def test_a_tool_knows_whether_its_app_is_shown(
    tmp_path: Path, mode: str, shows: bool, said: str
) -> None:
    async with connected(tmp_path, mode, shows) as client:
        (block,) = (await client.call_tool("clock", {})).content
        assert isinstance(block, types.TextContent) and block.text == said


@pytest.mark.requirement("9.2")
@both_eras
async def test_a_host_finds_the_page_and_what_it_may_do(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode, True) as client:
        (tool,) = (await client.list_tools()).tools
        meta: dict[str, Any] = tool.meta or {}
        assert meta["ui"] == {"resourceUri": "ui://clock", "visibility": ["model", "app"]}
        (page,) = (await client.read_resource(meta["ui"]["resourceUri"])).contents
        assert isinstance(page, types.TextResourceContents)
        assert (page.uri, page.mime_type, page.text[:15]) == ("ui://clock", APP, "<!doctype html>")
        assert page.meta == {
            "ui": {"csp": {"connectDomains": ["https://example.org"]}, "prefersBorder": True}
        }
