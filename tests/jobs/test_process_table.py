"""What is read from the system about a process, beside what psutil says of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mcpdesk.jobs import process_table
from mcpdesk.jobs.process_table import MARK, all_processes, marks, newest, row, rows, still_runs
from tests.support.patience import WITHIN_S

NAME = "a) R 1 (b"
"""A program's name that looks like the fields after it."""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    program = tmp_path / NAME
    program.symlink_to("/bin/sleep")
    environment = {"X": f"{MARK}=no;", MARK: "s.1;", "Z": "last"}
    with subprocess.Popen([str(program), "200"], env=environment, start_new_session=True) as child:
        yield child
        child.kill()


def test_a_process_is_described_whatever_its_name(sleeper: subprocess.Popen[bytes]) -> None:
    found = row(sleeper.pid)
    assert found is not None and found[:5] == all_processes()[sleeper.pid][:5]
    assert (found.pid, found.parent, found.session) == (sleeper.pid, os.getpid(), sleeper.pid)
    assert not found.is_zombie and not found.is_ending and still_runs(found)
    assert marks(sleeper.pid) == "s.1;"


def test_fields_are_those_psutil_tells() -> None:
    own, told = row(os.getpid()), process_table._row_of_psutil(os.getpid())
    assert own is not None and told is not None
    assert own[:3] == told[:3] and not told.is_zombie
    assert own.cpu_s == pytest.approx(told.cpu_s, abs=0.2)
    assert own.memory == pytest.approx(told.memory, rel=0.2)
    assert process_table._marks_of_psutil(os.getpid()) == os.environ.get(MARK, "")
    assert os.getpid() in process_table._pids_of_psutil()


def test_who_waits_to_be_collected_is_told_apart(sleeper: subprocess.Popen[bytes]) -> None:
    before = row(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    after = row(sleeper.pid)
    assert before is not None and after is not None
    assert after.is_zombie and after.is_ending and not still_runs(before)


def test_who_is_gone_is_nowhere() -> None:
    with subprocess.Popen(["true"]) as child:
        assert child.wait(WITHIN_S) == 0
    assert not psutil.pid_exists(child.pid)
    assert row(child.pid) is None and marks(child.pid) == ""
    assert rows([child.pid]) == {}
    assert process_table._row_of_psutil(child.pid) is None and process_table._marks_of_psutil(child.pid) == ""


def test_who_is_between_two_programs_is_waited_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # From the closing of its descriptors until the new program stands, the kernel shows neither.
    unready = [b""] * 100
    read = process_table._read
    monkeypatch.setattr(
        process_table, "_read", lambda pid, name: unready.pop() if unready else read(pid, name)
    )
    assert marks(sleeper.pid) == "s.1;" and not unready


def test_who_ends_while_it_is_looked_at_is_not_waited_for(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(process_table, "EXEC_S", 10 * WITHIN_S)
    began = time.monotonic()
    assert marks(sleeper.pid) == "" and time.monotonic() - began < WITHIN_S


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")
def test_the_newest_number_follows_each_process() -> None:
    with subprocess.Popen(["true"]) as child:
        numbers = int(Path("/proc/sys/kernel/pid_max").read_text())
        assert (newest() - child.pid) % numbers < 1000
