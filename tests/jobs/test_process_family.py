"""A job's processes are found by session, by descent and by mark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from secrets import token_hex

import pytest

from mcpdesk.jobs.process_table import (
    MARK,
    Family,
    has_family_ended,
    living,
    members,
    signal_all,
    with_mark,
)
from tests.support.patience import WITHIN_S

pytestmark = pytest.mark.process

NOBODY = 2**22 + 1
"""No process has this number."""


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for sleeper in started:
        with sleeper:
            sleeper.kill()


def start(command: str, **environment: str) -> subprocess.Popen[bytes]:
    """A shell in a new session that has written a line, so its environment is set."""
    shell = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | environment,
    )
    assert shell.stdout is not None
    shell.stdout.readline()
    return shell


def test_strangers_with_a_mark_belong_to_its_family(sleepers: list[subprocess.Popen[bytes]]) -> None:
    own = f"m.{token_hex(4)}"
    for mark in (f"{own}.1", f"{own}.12", f"{own}.2"):
        sleepers.append(start("echo; read", **with_mark(dict(os.environ), mark)))
    found = members({NOBODY + n - 1: Family(f"{own}.{n}") for n in (1, 2, 3)})
    assert {leader: [row.pid for row in rows] for leader, rows in found.items()} == {
        NOBODY: [sleepers[0].pid],
        NOBODY + 1: [sleepers[2].pid],
        NOBODY + 2: [],
    }


def test_who_waits_to_be_collected_counts_as_gone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    sleepers.append(sleeper)
    found = members({sleeper.pid: Family("none")})[sleeper.pid]
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert living(found) == []
    signal_all(found, 15)


def test_a_number_that_was_given_to_another_is_left_alone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    sleepers.append(sleeper)
    [row] = members({sleeper.pid: Family("none")})[sleeper.pid]
    signal_all([row._replace(start_time=row.start_time - 1)], 9)
    assert living([row]) == [row]


@pytest.mark.parametrize("command", ["setsid sleep 200 & echo", "sleep 200 & echo"])
def test_who_may_have_left_somebody_is_not_taken_for_alone(command: str) -> None:
    mark = f"f.{token_hex(4)}"
    with start(command, **{MARK: f"{mark};"}) as leader:
        assert leader.wait(WITHIN_S) == 0
    is_alone = has_family_ended(leader.pid, mark)
    left = members({leader.pid: Family(mark)})[leader.pid]
    signal_all(left, 9)
    assert (is_alone, len(left)) == (False, 1)
