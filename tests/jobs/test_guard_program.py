"""The parts of the guard's own program."""

from __future__ import annotations

import os
import subprocess

from mcpdesk.jobs.guard_program import marked_processes, read_groups
from mcpdesk.jobs.process_table import MARK
from tests.support.patience import WITHIN_S


def test_groups_that_were_released_are_forgotten() -> None:
    assert read_groups([b"+10\n", b"+11\n", b"-10\n", b"+12\n", b"-99\n"]) == {11, 12}


def test_only_processes_with_the_mark_are_found() -> None:
    sleepers = [
        subprocess.Popen(["sleep", "200"], env=os.environ | {MARK: f"outer.1;{mark};"})
        for mark in ("abc.1", "abd.1", "abc.12")
    ]
    try:
        assert marked_processes(b"abc.") == [sleepers[0].pid, sleepers[2].pid]
        assert marked_processes(b"abc.1;") == [sleepers[0].pid]
        assert marked_processes(b"outer.1;") == [sleeper.pid for sleeper in sleepers]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait(WITHIN_S)
