"""Clients of the official SDKs keep calling while desks begin, end and are killed, and clients leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client

from tests.support.official import stdio, text_of
from tests.support.patience import within
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WITHIN_S = 30.0
PAUSE_S = 0.05
"""Between two calls of a client: so short that some are under way when things happen."""
TICK = '''
import os
from pathlib import Path

from mcpdesk import tool


@tool(idempotent=True)
async def tick(who: str, number: int) -> str:
    """The process that answers."""
    return f"{os.getpid()} {who} {number}"
'''
SDK = "@modelcontextprotocol/sdk@1.32.2"
SCRIPT = """
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
const [program, folder, state, pause] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1" });
client.onerror = (error) => console.log(JSON.stringify({ error: String(error) }));
await client.connect(new StdioClientTransport({
  command: program, args: ["-m", "mcpdesk", "stdio", folder], env: { MCPDESK_STATE_DIR: state },
}));
let ends = false;
process.stdin.on("data", () => { ends = true; });
for (let number = 1; !ends; number++) {
  const result = await client.callTool({ name: "tick", arguments: { who: "typescript", number } });
  console.log(JSON.stringify({ number, text: result.content[0].text }));
  await new Promise((done) => setTimeout(done, Number(pause)));
}
await client.close();
process.exit(0);
"""


class Caller:
    """A client that calls repeatedly. `served_by` is the process that answered last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.served_by = 0
        self.wrong: list[object] = []
        self.answered = 0
        self._leaves = asyncio.Event()
        self._came = asyncio.Event()

    def took(self, number: int, text: str) -> None:
        """An answer: to be that to the call of this number."""
        self.answered += 1
        process, *rest = text.split()
        if rest != [self.name, str(number)] or number != self.answered:
            self.wrong.append((number, self.answered, text))
        self.served_by = int(process)
        self._came.set()

    async def is_served(self, *processes: int, by_others: bool = False) -> None:
        """Wait until one of these processes answers, or another one."""
        async with within():
            while (self.served_by in processes) == by_others or not self.served_by:
                await self.answer()

    async def answer(self) -> None:
        """Wait for the next answer."""
        self._came.clear()
        await self._came.wait()

    def leave(self) -> None:
        """Call no more."""
        self._leaves.set()

    async def run_python(self, folder: Path, mode: str) -> None:
        """Call with the Python SDK until `leave`."""
        identity = types.Implementation(name=self.name, version="1")
        heard: list[object] = []

        async def hear(message: object) -> None:
            heard.append(message)

        async with Client(stdio(folder), mode=mode, client_info=identity, message_handler=hear) as client:
            number = 0
            while not self._leaves.is_set():
                number += 1
                result = await client.call_tool("tick", {"who": self.name, "number": number})
                self.took(number, text_of(result))
                await asyncio.sleep(PAUSE_S)
        # The client reports a stray or second answer as an exception.
        self.wrong += [each for each in heard if isinstance(each, Exception)]

    async def run_typescript(self, folder: Path, modules: Path) -> None:
        """Call with the TypeScript SDK until `leave`."""
        (modules / "call.mjs").write_text(SCRIPT)
        state = os.environ["MCPDESK_STATE_DIR"]
        process = await asyncio.create_subprocess_exec(
            "node", "call.mjs", sys.executable, str(folder), state, str(PAUSE_S * 1000),
            cwd=modules, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin and process.stdout
        try:
            while line := await process.stdout.readline():
                told = json.loads(line)
                if "error" in told:
                    self.wrong.append(told)
                else:
                    self.took(told["number"], told["text"])
                if self._leaves.is_set() and not process.stdin.is_closing():
                    process.stdin.write(b"end\n")
                    process.stdin.close()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with one tool."""
    (tmp_path / "meeting" / "tools").mkdir(parents=True)
    (tmp_path / "meeting" / "tools" / "tick.py").write_text(TICK)
    return tmp_path / "meeting"


@pytest.fixture(scope="module")
def typescript() -> Path | None:
    """A folder with the TypeScript SDK, or None if it cannot be installed."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    modules = home / "mcpdesk-test" / "sdk-1.32.2"
    if not modules.is_dir():
        # An install that is interrupted leaves half a package, so the folder gets its name at the end.
        modules.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=modules.parent) as place:
            made = Path(place) / "made"
            made.mkdir()
            (made / "package.json").write_text('{"private": true, "type": "module"}')
            told = subprocess.run([npm, "install", "--no-audit", "--no-fund", SDK], cwd=made, timeout=120)
            if told.returncode:
                return None
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(modules)
    return modules


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Desk, int]]:
    """A desk that a person sees, and its process."""
    desk = await asyncio.to_thread(Desk, [str(folder), "--port", "0"])
    try:
        await asyncio.to_thread(desk.see, "tick")
        yield desk, int(desk.process.pid)
    finally:
        await asyncio.to_thread(desk.__exit__, None, None, None)


async def test_no_call_is_lost_or_answered_twice_whoever_begins_or_ends(
    folder: Path, typescript: Path | None
) -> None:
    ada, bob, tess = Caller("ada"), Caller("bob"), Caller("typescript")
    calling = [asyncio.create_task(ada.run_python(folder, "legacy"))]
    calling.append(asyncio.create_task(bob.run_python(folder, "2026-07-28")))
    callers = [ada, bob]
    if typescript is not None:
        calling.append(asyncio.create_task(tess.run_typescript(folder, typescript)))
        callers.append(tess)
    for each in callers:
        await each.is_served(0, by_others=True)
    alone = Counter(each.served_by for each in callers)
    assert set(alone.values()) == {1}  # each has a separate core
    for ending in (signal.SIGKILL, signal.SIGTERM):
        async with opened(folder) as (desk, process):
            for each in callers:
                await each.is_served(process)
            screen = await asyncio.to_thread(desk.see, f"{len(callers)}⇄")
            assert screen
            os.kill(process, ending)
            ended = asyncio.create_task(asyncio.to_thread(desk.end))  # and reads the terminal
            for each in callers:
                await each.is_served(process, by_others=True)
            await ended
            assert Counter(each.served_by for each in callers) == alone
    async with opened(folder) as (_, process):
        for each in callers:
            await each.is_served(process)
        bob.leave()
        await calling[1]
        for each in (ada, *callers[2:]):
            await each.answer()
            await each.answer()
            assert each.served_by == process
    ada.leave()
    tess.leave()
    await asyncio.gather(*calling)
    assert [each.wrong for each in callers] == [[] for _ in callers]
    if typescript is None:
        pytest.skip("ran all but the TypeScript client: Node or the npm registry is missing")
