"""A hosted server in the gateway dialect, also in modes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tests.support.desk import running_desk
from tests.support.folders import write

TOOLS = '''
from mcpdesk import Context, tool


@tool
async def make_plot(ctx: Context, name: str = "plot.txt") -> str:
    """Make a file."""
    (ctx.folder / name).write_text("a plot")
    ctx.produced(name)
    return "made"


@tool
async def look(ctx: Context) -> str:
    """Look around."""
    return "seen"
'''
MANIFEST = orjson.dumps(
    {"name": "plots", "description": "Draws.", "modes": {"quiet": {"tools": ["look"]}}}
).decode()


@asynccontextmanager
async def hosted(folder: Path, **flags: Any) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A client, and the address of a core that hosts a folder."""
    write(folder, {"mcp.json": MANIFEST, "tools/plots.py": TOOLS})
    async with running_desk(folder, http=True, **flags) as desk, aiohttp.ClientSession() as client:
        yield client, desk.view().servers[0].url.rpartition("/mcp/")[0]


async def called(client: aiohttp.ClientSession, url: str, name: str, **more: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name} | more}
    async with client.post(url, json=message) as answer:
        return await answer.json()


async def test_a_folder_is_discovered_called_and_its_file_downloaded(tmp_path: Path) -> None:
    async with hosted(tmp_path / "plots") as (client, base):
        async with client.get(f"{base}/v1/mcp") as answer:
            found = await answer.json()
        assert (found["name"], found["description"]) == ("plots", "Draws.")
        assert [each["name"] for each in found["capabilities"]["commands"]] == ["make-plot", "look"]
        job = (await called(client, f"{base}/v1/mcp", "make-plot", mode="async"))["result"]
        async with client.get(f"{base}/v1/mcp/progress/{job['job_id']}?interval_ms=20") as stream:
            assert b'"succeeded"' in await stream.read()
        async with client.get(base + job["download"]) as answer:
            assert await answer.read() == b"a plot"
        # A synchronous call makes no job, and nothing to download.
        assert (await called(client, f"{base}/v1/mcp", "make-plot"))["result"]["stdout"] == "made"


async def test_bash_as_a_job_tells_what_it_writes_while_it_runs(tmp_path: Path) -> None:
    manifest = {"mcp.json": '{"name": "shell", "builtins": ["Bash"]}'}
    folder = write(tmp_path / "shell", manifest)
    command = "echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2; exit 3"
    async with (
        running_desk(folder, http=True, no_auth=True) as desk,
        aiohttp.ClientSession() as client,
    ):
        base = desk.view().servers[0].url.rpartition("/mcp/")[0]
        job = (await called(client, f"{base}/v1/mcp", "Bash", arguments={"command": command}, mode="async"))[
            "result"
        ]
        told: list[Any] = []
        async with client.ws_connect(base + job["ws"]) as ws:
            async for message in ws:
                told.append(message.json())
                if "stdout" in told[-1]:
                    (folder / "go").touch()
        assert [each["stdout"] for each in told if "stdout" in each] == ["one\n"]
        assert [each["stderr"] for each in told if "stderr" in each] == ["two\n"]
        assert (told[-1]["status"], told[-1]["exit_code"], told[-1]["progress"]) == ("failed", 3, 0.0)
        failed = await called(client, f"{base}/v1/mcp", "Bash", arguments={"command": command})
        assert failed["error"]["code"] == -32000
        assert failed["error"]["data"] == {
            "exit_code": 3, "stdout": "one\n", "stderr": "two\n", "stage": "Bash", "command": "",
        }  # fmt: skip
