"""The parts of the guard's own program."""

from __future__ import annotations

import os
import subprocess
from secrets import token_hex

from mcpdesk.jobs.guard_program import marked_processes, read_groups
from mcpdesk.jobs.process_table import MARK
from tests.support.patience import WITHIN_S


def test_groups_that_were_released_are_forgotten() -> None:
    assert read_groups([b"+10\n", b"+11\n", b"-10\n", b"+12\n", b"-99\n"]) == {11, 12}


def test_only_processes_with_the_mark_are_found() -> None:
    own = token_hex(8)
    sleepers = [
        subprocess.Popen(["sleep", "200"], env=os.environ | {MARK: f"outer{own}.1;{mark};"})
        for mark in (f"c{own}.1", f"d{own}.1", f"c{own}.12")
    ]
    try:
        assert set(marked_processes(f"c{own}.".encode())) == {sleepers[0].pid, sleepers[2].pid}
        assert marked_processes(f"c{own}.1;".encode()) == [sleepers[0].pid]
        assert set(marked_processes(f"outer{own}.1;".encode())) == {sleeper.pid for sleeper in sleepers}
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait(WITHIN_S)
