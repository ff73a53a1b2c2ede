"""A file is saved, and connected official clients hear of it, each in the way of its era."""

from __future__ import annotations

import asyncio
from pathlib import Path

import mcp_types as types
import pytest
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    listen,
)

from tests.support.desk import running_desk
from tests.support.official import HANDSHAKES, WITHIN_S, Heard, session, stdio
from tests.support.workshop import workshop

ADDED = '''
from mcpdesk import tool


@tool
async def added() -> str:
    """New here."""
    return "at your service"
'''


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_session_hears_of_saved_files_on_its_standing_stream(tmp_path: Path, revision: str) -> None:
    folder = workshop(tmp_path / "workshop")
    async with running_desk(folder, http=True, watch=True) as desk:
        await hears(desk.view().servers[0].url, folder, revision)


@pytest.mark.parametrize("alone", [True, False], ids=["stdio", "pump"])
async def test_a_pipe_hears_of_saved_files(tmp_path: Path, alone: bool) -> None:
    folder = workshop(tmp_path / "workshop")
    if alone:
        await hears(stdio(folder, "--alone"), folder, "2025-11-25")
        return
    async with running_desk(folder, meet=True, watch=True):
        await hears(stdio(folder), folder, "2025-11-25")


async def hears(place: str | StdioServerParameters, folder: Path, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        assert client.server_capabilities is not None and client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        await client.send_request(
            types.SubscribeRequest(params=types.SubscribeRequestParams(uri="resource://notes")),
            types.EmptyResult,
        )
        (folder / "tools" / "added.py").write_text(ADDED)
        await heard.until(lambda: heard.has(types.ToolListChangedNotification))
        assert (await client.call_tool("added", {})).content == [
            types.TextContent(type="text", text="at your service")
        ]
        (folder / "prompts" / "more.md").write_text("Tell me more.")
        await heard.until(lambda: heard.has(types.PromptListChangedNotification))
        (folder / "resources" / "more.txt").write_text("more")
        await heard.until(lambda: heard.has(types.ResourceListChangedNotification))
        (folder / "resources" / "notes.md").write_text("# Other notes\n")
        await heard.until(lambda: heard.has(types.ResourceUpdatedNotification))
        read = (await client.read_resource("resource://notes")).contents[0]
        assert isinstance(read, types.TextResourceContents) and "# Other notes" in read.text


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_a_listener_of_the_stateless_era_hears_what_it_asked_for(tmp_path: Path, way: str) -> None:
    folder = workshop(tmp_path / "workshop")
    async with running_desk(folder, http=True, meet=True, watch=True) as desk:
        place = desk.view().servers[0].url if way == "http" else stdio(folder)
        async with (
            session(place, "2026-07-28") as client,
            asyncio.timeout(WITHIN_S),
            listen(client, tools_list_changed=True, resource_subscriptions=["resource://notes"]) as changes,
            listen(client, prompts_list_changed=True, resources_list_changed=True) as others,
        ):
            assert changes.honored.tools_list_changed and not changes.honored.prompts_list_changed
            assert changes.honored.resource_subscriptions == ["resource://notes"]
            (folder / "prompts" / "more.md").write_text("Tell me more.")
            assert await anext(others) == PromptsListChanged()
            (folder / "tools" / "added.py").write_text(ADDED)
            assert await anext(changes) == ToolsListChanged()
            (folder / "resources" / "notes.md").write_text("# Other notes\n")
            assert await anext(changes) == ResourceUpdated(uri="resource://notes")
            (folder / "resources" / "more.txt").write_text("more")
            assert await anext(others) == ResourcesListChanged()
            assert (await client.call_tool("added", {})).content


async def test_a_core_that_stops_ends_its_listeners_gracefully(tmp_path: Path) -> None:
    folder = workshop(tmp_path / "workshop")
    async with (
        running_desk(folder, http=True) as desk,
        session(desk.view().servers[0].url, "2026-07-28") as client,
        asyncio.timeout(WITHIN_S),
        listen(client, tools_list_changed=True) as changes,
    ):
        desk.host.call_soon(desk.host.services.subscriptions.close)
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
