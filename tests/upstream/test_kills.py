"""`kill -9` at the steps of a desk's session with a program: the effect on the other side."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest

from mcpdesk.client.targets import CommandTarget
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import odd_server
from tests.support.desk import running_desk
from tests.support.patience import WITHIN_S, until
from tests.support.processes import gone

BOTH = "application/json, text/event-stream"
STUBBORN = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
with open(sys.argv[1], "w") as file:
    print(os.getpid(), child.pid, away.pid, file=file, flush=True)
while True:
    time.sleep(1)
"""
"""A program that ignores the end of its input and signals, and whose children leave its process group."""


@contextmanager
def serving(pids: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A `mcpdesk serve` with the stubborn program on it, and the processes of that."""
    os.mkfifo(pids)
    command = [sys.executable, "-m", "mcpdesk", "serve", "--http", "0", "--"]
    program = [sys.executable, "-c", STUBBORN, str(pids)]
    served = subprocess.Popen([*command, *program], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
    try:
        yield served, [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    finally:
        served.kill()
        served.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_of_a_stubborn_program_outlives_its_desk(number: int, tmp_path: Path) -> None:
    with serving(tmp_path / "pids") as (served, family):
        served.send_signal(number)
        served.wait(WITHIN_S)
        assert gone(family)


STEP = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    step = asked.get("params", {}).get("clientInfo", {}).get("name") or asked["method"]
    new = os.path.join(sys.argv[1], "new-%d" % os.getpid())  # a desk has a run of its own
    with open(new, "w") as file:
        print(os.getpid(), file=file)
    os.rename(new, os.path.join(sys.argv[1], step.replace("/", "-")))
    if step not in ("silent", "tools/call") and "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": about}), flush=True)
"""
"""It notes each step it is at, and is silent at some."""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["begin", "pause", "call", "stream"])
@pytest.mark.parametrize("victim", ["program", "desk"])
async def test_each_step_of_a_client_s_session_through_the_desk(
    victim: str, step: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "mcpdesk", "serve", "--http", "0", "--no-auth", "--"]
    program = [sys.executable, "-S", "-c", STEP, str(tmp_path)]
    served = subprocess.Popen([*command, *program], stdin=-1, stderr=subprocess.PIPE, text=True)
    try:
        assert served.stderr is not None
        place = next(found for line in served.stderr if (found := re.search(r"http://\S+/mcp/\S+", line)))
        async with aiohttp.ClientSession(
            headers={"Accept": BOTH, "Content-Type": "application/json"}
        ) as http:
            await killed_at(http, place.group(), step, tmp_path, served if victim == "desk" else None)
    finally:
        served.kill()
        served.communicate()


async def killed_at(
    http: aiohttp.ClientSession, url: str, step: str, place: Path, desk: subprocess.Popen[str] | None
) -> None:
    """Kill the desk, or without one the program of a session, at a step, and look at what its client sees."""

    async def ask(method: str, name: str = "", session: str = "") -> tuple[int, str, str]:
        params = {"clientInfo": {"name": name}, "protocolVersion": "2025-06-18"} if name else {}
        sent = json.dumps({"jsonrpc": "2.0", "id": len(method), "method": method, "params": params})
        headers = {"Mcp-Session-Id": session} if session else {}
        async with http.post(url, data=sent, headers=headers) as got:
            return got.status, await got.text(), got.headers.get("Mcp-Session-Id", "")

    async def kill(at: str) -> psutil.Process:
        await until((place / at).exists)
        program = psutil.Process(int((place / at).read_text()))
        (program if desk is None else desk).kill()
        return program

    if step == "begin":
        asking = asyncio.create_task(ask("initialize", "silent"))
        program = await kill("silent")
    else:
        _, _, session = await ask("initialize", "loud")
        method = "tools/call" if step == "call" else "ping"
        if step == "stream":
            async with http.get(url, headers={"Mcp-Session-Id": session}) as stream:
                program = await kill("loud")
                if desk is None:
                    assert await stream.read() == b""
                else:
                    with pytest.raises(aiohttp.ClientError):
                        await stream.read()
        elif step == "pause":
            program = await kill("loud")
            assert await asyncio.to_thread(gone, [program])
        asking = asyncio.create_task(ask(method, "", session))
        if step == "call":
            program = await kill("tools-call")
    if desk is not None:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await asking
    else:
        status, told, begun = await asking
        if step == "pause" and status == 200:  # asked before the desk noticed the end
            assert "the program ended by SIGKILL" in told
            status, told, begun = await ask(method, "", session)
        assert (status, begun) == (404 if step in ("pause", "stream") else 200, "")
        assert ("initialize again" if status == 404 else "the program ended by SIGKILL") in told
    assert await asyncio.to_thread(gone, [program])


@pytest.mark.process
async def test_a_call_is_told_that_its_program_was_killed_and_the_next_one_starts_it_again(
    tmp_path: Path,
) -> None:
    pid = tmp_path / "pid"
    noted = f"open({str(pid)!r}, 'w').write(str(os.getpid()))"
    script = f"import os, runpy; {noted}; runpy.run_path({odd_server.PROGRAM!r}, run_name='__main__')"
    argv = (sys.executable, "-c", script)
    plan = UpstreamPlan("odd", CommandTarget(argv))
    async with running_desk(upstreams=[plan]) as desk:

        def state() -> str:
            [server] = desk.view().servers
            assert server.upstream is not None
            return server.upstream.state

        await until(lambda: state() == "ready")
        first = int(pid.read_text())
        asking = desk.request("odd", "tools/call", {"name": "ask", "arguments": {}})
        await until(desk.questions)
        os.kill(first, signal.SIGKILL)
        outcome = await asyncio.wrap_future(asking.outcome)
        assert "SIGKILL" in json.dumps(outcome.error)
        await until(lambda: state() == "ended")
        [question] = desk.questions()
        assert (question.state, question.reason) == ("withdrawn", "the call is over")
        again = desk.request("odd", "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        answered = await asyncio.wrap_future(again.outcome)
        assert "hi" in json.dumps(answered.result) and int(pid.read_text()) != first
