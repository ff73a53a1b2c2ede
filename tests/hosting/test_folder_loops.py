"""A folder whose code blocks the core's loop runs on separate loops from then on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.server.calls.threads import folder_loops
from mcpdesk.server.calls.threads.folder_loops import FolderLoops
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import save, write
from tests.support.messages import said
from tests.support.patience import until
from tests.support.wire import Wire

pytestmark = pytest.mark.slow

TOOLS = '''
import os
import threading
import time

from mcpdesk import Context, SyncContext
from mcpdesk.errors import ClientError


async def hold(until: str) -> str:
    """Block the loop."""
    while not os.path.exists(until):
        time.sleep(0.01)
    return "held"


async def where(ctx: Context) -> str:
    """Say on which thread it runs, and use the context."""
    await ctx.progress(1, 2)
    await ctx.info("here")
    ctx.resource_updated("thing://1")
    ctx.produced("tools/hold.py")
    with ctx.own_limit():
        pass
    asked = []
    for question in (
        lambda: ctx.elicit("Name?", {"type": "object", "properties": {}}),
        lambda: ctx.elicit_url("Log in", "https://example.com"),
        lambda: ctx.sample("Hello?"),
        lambda: ctx.list_roots(),
    ):
        try:
            await question()
        except ClientError as error:
            asked.append(type(error).__name__)
    return f"{threading.current_thread().name}; {' '.join(asked)}; {ctx.state['thread']}"


def plain(ctx: SyncContext) -> str:
    """Say on which thread it runs."""
    ctx.progress(1, 2)
    return ctx.on_loop(lambda: threading.current_thread().name)


async def fail() -> str:
    """Raise."""
    raise SystemExit("no")


async def patient() -> str:
    """Wait for a long time."""
    import asyncio

    await asyncio.sleep(600)
    return "done"
'''
RESOURCE = '''
import threading

from mcpdesk import resource


@resource("thing://{number}", complete={"number": lambda typed: [threading.current_thread().name]})
async def thing(number: int) -> str:
    """Say on which thread it runs."""
    return threading.current_thread().name
'''
PROMPT = '''
import threading


async def ask() -> str:
    """Say on which thread it runs."""
    return threading.current_thread().name
'''
CONTEXT = """
import threading


async def lifespan(server):
    yield {"thread": threading.current_thread().name}
"""
LOOP = "loop of block"
CORE = "mcpdesk-core"


def folder_of(path: Path) -> Path:
    files = {
        "mcp.json": '{"name": "block"}',
        "context.py": CONTEXT,
        "tools/hold.py": TOOLS,
        "resources/thing.py": RESOURCE,
        "prompts/ask.py": PROMPT,
    }
    return write(path / "block", files)


@asynccontextmanager
async def blocked_once(path: Path, **flags: Any) -> AsyncIterator[tuple[RunningDesk, Wire]]:
    """A desk whose loop was blocked once by the folder, and a client."""
    folder = folder_of(path)
    async with (
        running_desk(folder, http=True, watch=True, no_auth=True, **flags) as desk,
        aiohttp.ClientSession() as client,
    ):
        wire = Wire(client, desk.view().servers[0].url)
        await wire.open()
        let_go = path / "first"
        params = {"name": "hold", "arguments": {"until": str(let_go)}}
        first = asyncio.create_task(wire.post("tools/call", params))
        try:
            await until(
                lambda: any("runs on a separate thread" in line.text for line in desk.host.journal.lines())
            )
        finally:
            let_go.touch()
        await first  # with its result, or the time was up: nothing could end it before
        await until(lambda: loops_of(desk) is not None)
        yield desk, wire


def loops_of(desk: RunningDesk) -> FolderLoops | None:
    hosted = desk.host.folders["block"].server.hosted
    return None if hosted is None else hosted.folder_loops


async def test_a_blocking_tool_gets_its_timeout_and_stops_no_others(tmp_path: Path) -> None:
    async with blocked_once(tmp_path, tool_timeout_ms=1000) as (desk, wire):
        let_go = tmp_path / "second"
        try:
            held = await wire.call("hold", fails=True, until=str(let_go))
            assert "not finished within its limit of 1 s" in said(held)
            # The loop is still blocked: health and other tools of the same folder answer.
            assert await wire.get("/health")
            loops = loops_of(desk)
            assert loops is not None and len(loops) == 1
            assert said(await wire.call("plain")) != ""
            assert len(loops) == 2
            assert desk.view().stuck is None
        finally:
            let_go.touch()
        await until(lambda: len(loops) == 1)  # the one that was blocked has ended


async def test_when_every_loop_is_blocked_calls_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_loops, "MAX_LOOPS", 1)
    async with blocked_once(tmp_path, tool_timeout_ms=1000) as (_, wire):
        let_go = tmp_path / "second"
        try:
            await wire.call("hold", fails=True, until=str(let_go))
            refused = said(await wire.call("patient", fails=True))
            assert refused.startswith("All 1 threads of block are occupied by functions that block.")
        finally:
            let_go.touch()


async def test_everything_of_the_folder_runs_there_with_its_context(tmp_path: Path) -> None:
    async with blocked_once(tmp_path) as (_, wire):
        meta = {"progressToken": 1}
        params = {"name": "where", "arguments": {}, "_meta": meta}
        told = said((await wire.post("tools/call", params))["result"])
        assert told == f"{LOOP}; {' '.join(['MissingCapability'] * 4)}; {LOOP}"
        # The core's loop still serves the context of a plain function, in whatever thread that runs.
        assert said(await wire.call("plain")) == CORE
        read = await wire.post("resources/read", {"uri": "thing://1"})
        assert read["result"]["contents"][0]["text"] == LOOP
        asked = await wire.post("prompts/get", {"name": "ask"})
        assert asked["result"]["messages"][0]["content"]["text"] == LOOP
        raised = said(await wire.call("fail", fails=True))
        assert "SystemExit" in raised


async def test_changed_code_runs_on_the_cores_loop_again(tmp_path: Path) -> None:
    async with blocked_once(tmp_path) as (desk, wire):
        assert said(await wire.call("plain"))
        file = tmp_path / "block/tools/hold.py"
        save(file, file.read_text(encoding="utf-8").replace("Wait for a long time", "Wait"))
        await until(lambda: (loops := loops_of(desk)) is not None and not loops.is_on and len(loops) == 0)
        read = await wire.post("resources/read", {"uri": "thing://1"})
        assert read["result"]["contents"][0]["text"] == CORE


async def test_a_cancelled_call_is_cancelled_there(tmp_path: Path) -> None:
    async with blocked_once(tmp_path, tool_timeout_ms=500) as (desk, wire):
        late = said(await wire.call("patient", fails=True))
        assert "not finished within its limit of 0.5 s" in late
        loops = loops_of(desk)
        assert loops is not None
        await until(lambda: loops.calls == 0)
