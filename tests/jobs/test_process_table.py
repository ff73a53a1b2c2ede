"""Data of the system about a process, compared with psutil."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpdesk.jobs import guard_program
from mcpdesk.jobs.process_table import MARK, all_processes, marks, row, still_runs
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
    assert marks(sleeper.pid) == "s.1;"


@pytest.mark.process
def test_who_ends_while_it_is_looked_at_is_not_waited_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(guard_program, "EXEC_S", 10 * WITHIN_S)
    began = time.monotonic()
    assert marks(sleeper.pid) == "" and time.monotonic() - began < WITHIN_S
