"""After a file is saved, connected official clients are notified, each as its era defines."""

from __future__ import annotations

from pathlib import Path

import mcp_types as types
import pytest
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    listen,
)

from mcpdesk.protocol.revisions import LATEST
from tests.support.desk import running_desk
from tests.support.folders import save
from tests.support.official import HANDSHAKES, WAYS, Heard, Place, place_of, session
from tests.support.patience import within
from tests.support.workshop import workshop

pytestmark = pytest.mark.process

ADDED = '''
from mcpdesk import tool


@tool
async def added() -> str:
    """New here."""
    return "at your service"
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return workshop(tmp_path / "workshop")


@pytest.mark.parametrize(
    ("way", "revision"),
    [(way, HANDSHAKES[-1]) for way in WAYS] + [("json", each) for each in HANDSHAKES[:-1]],
)
async def test_a_session_hears_of_saved_files(folder: Path, way: str, revision: str) -> None:
    async with running_desk(folder, http=True, accepts_pumps=True, watch=True) as desk:
        await hears(place_of(way, desk.view().servers[0].url, folder), folder, revision)


async def hears(place: Place, folder: Path, revision: str) -> None:
    heard = Heard()
    async with session(place, revision, heard) as client:
        assert client.server_capabilities is not None and client.server_capabilities.tools is not None
        assert client.server_capabilities.tools.list_changed
        await client.send_request(
            types.SubscribeRequest(params=types.SubscribeRequestParams(uri="resource://notes")),
            types.EmptyResult,
        )
        save(folder / "tools" / "added.py", ADDED)
        await heard.sees(lambda: heard.has(types.ToolListChangedNotification))
        assert (await client.call_tool("added", {})).content == [
            types.TextContent(type="text", text="at your service")
        ]
        save(folder / "prompts" / "more.md", "Tell me more.")
        await heard.sees(lambda: heard.has(types.PromptListChangedNotification))
        save(folder / "resources" / "more.txt", "more")
        await heard.sees(lambda: heard.has(types.ResourceListChangedNotification))
        save(folder / "resources" / "notes.md", "# Other notes\n")
        await heard.sees(lambda: heard.has(types.ResourceUpdatedNotification))
        read = (await client.read_resource("resource://notes")).contents[0]
        assert isinstance(read, types.TextResourceContents) and "# Other notes" in read.text


@pytest.mark.parametrize("way", WAYS)
async def test_a_listener_of_the_stateless_era_hears_what_it_asked_for(folder: Path, way: str) -> None:
    async with running_desk(folder, http=True, accepts_pumps=True, watch=True) as desk:
        place = place_of(way, desk.view().servers[0].url, folder)
        async with (
            session(place, LATEST.name) as client,
            within(),
            listen(client, tools_list_changed=True, resource_subscriptions=["resource://notes"]) as changes,
            listen(client, prompts_list_changed=True, resources_list_changed=True) as others,
        ):
            assert changes.honored.tools_list_changed and not changes.honored.prompts_list_changed
            assert changes.honored.resource_subscriptions == ["resource://notes"]
            save(folder / "prompts" / "more.md", "Tell me more.")
            assert await anext(others) == PromptsListChanged()
            save(folder / "tools" / "added.py", ADDED)
            assert await anext(changes) == ToolsListChanged()
            save(folder / "resources" / "notes.md", "# Other notes\n")
            assert await anext(changes) == ResourceUpdated(uri="resource://notes")
            save(folder / "resources" / "more.txt", "more")
            assert await anext(others) == ResourcesListChanged()
            assert (await client.call_tool("added", {})).content


@pytest.mark.parametrize("way", [way for way in WAYS if way != "stdio"])
async def test_a_core_that_stops_ends_its_listeners_gracefully(folder: Path, way: str) -> None:
    async with (
        running_desk(folder, http=True, accepts_pumps=True) as desk,
        session(place_of(way, desk.view().servers[0].url, folder), LATEST.name) as client,
        within(),
        listen(client, tools_list_changed=True) as changes,
    ):
        desk.host.call_soon(desk.host.services.subscriptions.close)
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
