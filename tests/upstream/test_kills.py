"""`kill -9` at the steps of a desk's session with a program: what the other side of it notices."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mcpdesk.client.targets import CommandTarget
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import odd_server
from tests.support.desk import running_desk, until
from tests.support.patience import WITHIN_S
from tests.support.processes import gone

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
"""It hears neither the end of its input nor a signal, and what it starts goes away from it."""


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
