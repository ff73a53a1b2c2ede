"""No orphan is left, however the process that started the programs ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mcpdesk.jobs.child import HAS_GUARD, ProgramGuard
from tests.support.patience import WITHIN_S, wait_until
from tests.support.processes import gone

CORE = """
import asyncio, os, sys
from pathlib import Path
from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import run

async def main():
    escape = "setsid sh -c 'trap \\"\\" TERM HUP; echo $$ >&9; exec sleep 200' & echo $$ >&9"
    unmarked = "env -i setsid -f sh -c 'trap \\"\\" TERM HUP; echo $$ >&9; exec sleep 200'"
    command = f"exec 9>>{sys.argv[1]}; {escape}; {unmarked}; sleep 200"
    await run(["bash", "-c", command], folder=Path("/"), environment=dict(os.environ), output=Output())

asyncio.run(main())
"""


def start_core(pids: Path) -> subprocess.Popen[bytes]:
    """A process that runs a program through our runner, as the core does."""
    os.mkfifo(pids)
    return subprocess.Popen([sys.executable, "-c", CORE, str(pids)], start_new_session=True)


def read_pids(fifo: Path, number: int) -> list[psutil.Process]:
    with open(fifo) as file:
        return [psutil.Process(int(file.readline())) for _ in range(number)]


ENDS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_GUARD, reason="needs a system where orphans can be adopted")
@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_children_do_not_outlive_the_core(tmp_path: Path, number: signal.Signals) -> None:
    core = start_core(tmp_path / "pids")
    children = read_pids(tmp_path / "pids", 3)
    guards = [each for each in psutil.Process(core.pid).children() if "-S" in each.cmdline()]
    assert len(guards) == 1
    os.kill(core.pid, number)
    core.wait(WITHIN_S)
    assert gone(children)
    assert gone(guards)


@pytest.fixture
def guard() -> Iterator[ProgramGuard]:
    """A guard that receives the groups of programs its owner starts."""
    guard = ProgramGuard(starts_programs=False)
    guard.new_mark()
    yield guard
    guard.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    yield sleeper
    sleeper.kill()
    sleeper.wait(WITHIN_S)


def is_ready(pid: int) -> None:
    """Wait until a process ignores TERM, which is the last signal the guard's program arranges for."""

    def is_deaf() -> bool:
        ignored = Path(f"/proc/{pid}/status").read_text().partition("SigIgn:")[2].split()[0]
        return bool(int(ignored, 16) >> (signal.SIGTERM - 1) & 1)

    wait_until(is_deaf)


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_a_guard_does_not_react_to_signals_meant_for_the_desk(
    guard: ProgramGuard, sleeper: subprocess.Popen[bytes]
) -> None:
    program = guard._program
    assert program is not None
    is_ready(program.pid)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        program.send_signal(number)
    guard.watch(sleeper.pid)
    guard.close()
    assert program.returncode == 0
    assert sleeper.wait(WITHIN_S) == -signal.SIGKILL


@pytest.mark.process
def test_a_released_group_is_left_alone(guard: ProgramGuard, sleeper: subprocess.Popen[bytes]) -> None:
    guard.watch(sleeper.pid)
    guard.release(sleeper.pid)
    guard.close()
    assert sleeper.poll() is None


@pytest.mark.process
def test_a_guard_that_was_killed_is_replaced_and_knows_the_groups(
    guard: ProgramGuard, sleeper: subprocess.Popen[bytes]
) -> None:
    guard.watch(sleeper.pid)
    assert guard._program is not None
    guard._program.kill()
    guard._program.wait(WITHIN_S)
    guard.release(12345)
    guard.new_mark()
    guard.close()
    assert sleeper.wait(WITHIN_S) == -signal.SIGKILL
