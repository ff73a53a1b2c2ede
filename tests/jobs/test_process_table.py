"""Data of the system about a process, compared with psutil."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from mcpdesk.jobs import guard_program
from mcpdesk.jobs.process_table import MARK, all_processes, marks_text, row, still_runs, usage_of
from tests.support.patience import WITHIN_S

NAME = "a) R 1 (b"
"""A program name that resembles the fields after it."""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = tmp_path / NAME
    program.symlink_to("/bin/sleep")
    environment = {"X": f"{MARK}=no;", MARK: "s.1;", "Z": "last"}
    with subprocess.Popen([str(program), "200"], env=environment, start_new_session=True) as child:
        yield child
        child.kill()


@pytest.mark.process
def test_a_process_is_described_whatever_its_name(sleeper: subprocess.Popen[bytes]) -> None:
    found = row(sleeper.pid)
    assert found is not None and found[:5] == all_processes()[sleeper.pid][:5]
    assert (found.pid, found.parent, found.session) == (sleeper.pid, os.getpid(), sleeper.pid)
    assert not found.is_zombie and not found.is_ending and still_runs(found)
    assert marks_text(sleeper.pid) == "s.1;"


@pytest.mark.process
def test_who_ends_while_it_is_looked_at_is_not_waited_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(guard_program, "EXEC_S", 10 * WITHIN_S)
    began = time.monotonic()
    assert marks_text(sleeper.pid) == "" and time.monotonic() - began < WITHIN_S


@pytest.mark.process
def test_the_usage_of_a_session_counts_each_of_its_processes() -> None:
    program = (
        "import subprocess, sys; subprocess.Popen(['sleep', '200']); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, start_new_session=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline()
            usages = usage_of([child.pid])
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    assert set(usages) == {child.pid}
    usage = usages[child.pid]
    assert usage.processes == 2
    assert usage.memory > psutil.Process().memory_info().rss / 100 and usage.cpu_s > 0


def test_nothing_is_looked_up_for_no_session() -> None:
    assert usage_of([]) == {}
