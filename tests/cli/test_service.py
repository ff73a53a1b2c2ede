"""What a core without a screen says, and how it ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import msgspec
import pytest

from mcpdesk.cli.journal_printer import JournalPrinter
from mcpdesk.cli.service import _drain, _under_way, greeting
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.hosting.journal import Journal
from mcpdesk.server.server import Server
from tests.support.desk import until
from tests.support.folders import write
from tests.support.patience import WITHIN_S

WAIT = '''
import asyncio

from mcpdesk import tool


@tool(timeout=300)
async def heed() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


@tool(timeout=300)
async def ignore() -> None:
    """Do not hear of the end at first."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()
'''


def call(name: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}


def host(protection: str, configured: str = "", state: Path = Path("/nowhere/at/all")) -> SimpleNamespace:
    return SimpleNamespace(
        endpoints=lambda: [SimpleNamespace(name="small", server=Server("small"))],
        url=lambda name: f"http://127.0.0.1:1/mcp/{name}",
        protection=protection,
        is_exposed=False,
        rules=SimpleNamespace(api_key_header="X-API-Key"),
        settings=SimpleNamespace(api_key=configured, state_dir=state),
        journal=Journal(),
    )


@pytest.mark.parametrize(
    ("protection", "words"), [("key", "send the key as X-API-Key"), ("open", "ANYBODY"), ("loopback", "")]
)
def test_greeting_says_where_and_for_whom(protection: str, words: str) -> None:
    lines = greeting(host(protection))  # type: ignore[arg-type]
    assert lines[0] == "serving small at http://127.0.0.1:1/mcp/small"
    assert words in lines[-1]
    assert lines[1] == "a browser shows it at http://127.0.0.1:1/"
    assert len(lines) == (3 if words else 2)


def test_greeting_says_where_the_key_is(tmp_path: Path) -> None:
    (tmp_path / "api-key").touch()
    assert f"it is in {tmp_path}/api-key" in greeting(host("key", state=tmp_path))[2]  # type: ignore[arg-type]
    assert "the configured one" in greeting(host("key", "secret", tmp_path))[2]  # type: ignore[arg-type]
    assert "set MCPDESK_API_KEY" in greeting(host("key"))[2]  # type: ignore[arg-type]


async def test_who_waits_for_a_call_that_took_too_long_is_answered_or_disconnected(tmp_path: Path) -> None:
    folder = write(tmp_path, {"tools/wait.py": WAIT})
    plan = plan_for((folder,), {"port": 0, "drain_timeout_s": 0}, os.environ, http=True)
    core = Host(msgspec.structs.replace(plan, watch=False, meet=False))
    core.load()
    await core.start()
    try:
        assert core.http is not None
        url = core.http.address
        async with aiohttp.ClientSession() as client:
            heeding, ignoring = (
                asyncio.create_task(client.post(f"{url}/mcp", json=call(name))) for name in ("heed", "ignore")
            )
            await until(lambda: _under_way(core) == "2 calls")
            with JournalPrinter(core) as log:
                assert await _drain(core, log) == "2 calls"
            async with asyncio.timeout(WITHIN_S):
                result = (await (await heeding).json())["result"]
                assert result["isError"] and "the server is stopping" in result["content"][0]["text"]
                with pytest.raises(aiohttp.ServerDisconnectedError):
                    await ignoring
                # The core goes on: nobody was made to leave by its stop.
                assert (await client.get(f"{url}/health")).status == 200
    finally:
        await core.stop()
