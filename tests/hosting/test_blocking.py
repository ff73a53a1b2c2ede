"""What the core's event loop opens itself while it serves: next to nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.settings import read_env_file
from tests.support.blocking import blocking_calls
from tests.support.desk import running_desk
from tests.support.patience import WITHIN_S
from tests.support.rude import turn

MANIFEST = (
    '{"name": "meeting", "version": "1.0.0", "builtins": ["PlanMode", "TaskManager", "SetCallback", "Bash"]}'
)
TOOL = '''
async def echo(text: str) -> str:
    """Repeat a text."""
    return text
'''
OFFERED_AGAIN = TOOL.replace("echo", "again")
ALLOWED = (
    "(jobs/child.py:",  # a program is started: its pipes, and once the source of its guard
    "(hosting/folder/",  # a folder that changed is read again: its manifest and the digests of its files
    "(settings.py:read_env_file)",  # likewise
)


class Wire:
    """A session over HTTP."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.headers = {"Accept": "application/json"}
        self._client = client
        self._url = url
        self._number = 0

    async def post(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        told = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._client.post(self._url, json=message, headers=told) as answer:
            if session := answer.headers.get("Mcp-Session-Id"):
                self.headers["Mcp-Session-Id"] = session
            return await answer.json()

    async def call(self, tool: str, **arguments: Any) -> None:
        answer = await self.post("tools/call", {"name": tool, "arguments": arguments})
        assert not answer["result"]["isError"], answer


@pytest.mark.process
async def test_the_loop_opens_no_file_and_no_database_while_it_serves(tmp_path: Path) -> None:
    folder = tmp_path / "meeting"
    (folder / "tools").mkdir(parents=True)
    (folder / "mcp.json").write_text(MANIFEST)
    (folder / "tools" / "tool.py").write_text(TOOL)
    async with (
        running_desk(folder, http=True, watch=True, no_auth=True) as desk,
        aiohttp.ClientSession() as client,
        asyncio.timeout(WITHIN_S),
    ):
        wire = Wire(client, desk.host.url("meeting"))
        with blocking_calls(ALLOWED) as seen:
            info = {"name": "wire", "version": "1"}
            opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
            await wire.post("initialize", opening)
            unknown = await wire.post("ping", {}, Mcp_Session_Id="0" * 48)
            assert "No such session" in unknown["error"]["message"]
            await wire.call("echo", text="a")
            await wire.call("TaskManager", action="create", query="buy milk")
            await wire.call("TaskManager", action="list", query="")
            await wire.call("SetCallback", action="set", message="now", delay_seconds=1)
            await wire.call("PlanMode", action="enter", goal="Move house")
            await wire.call("PlanMode", action="exit")
            await wire.call("Bash", command="echo hi")
            (folder / "tools" / "tool.py").write_text(OFFERED_AGAIN)
            while "again" not in str(await wire.post("tools/list", {})):
                await turn()
            async with client.delete(desk.host.url("meeting"), headers=wire.headers) as answer:
                assert answer.status == 204
    assert not seen, "\n".join(seen)


async def test_the_watch_notices_a_file_that_our_code_opens_on_a_loop(tmp_path: Path) -> None:
    (tmp_path / "mcpdesk-env.txt").write_text("")
    with blocking_calls() as seen:
        await asyncio.to_thread(lambda: list(read_env_file(tmp_path / "mcpdesk-env.txt")))
        assert not seen, "\n".join(seen)
        list(read_env_file(tmp_path / "mcpdesk-env.txt"))
    assert len(seen) == 1 and "(settings.py:read_env_file)" in seen[0]
