"""A job's processes are found by session, by descent and by mark."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from secrets import token_hex

import pytest

from mcpdesk.jobs import process
from mcpdesk.jobs.process import TERM_GRACE_S, FamilyReaper
from mcpdesk.jobs.process_table import (
    MARK,
    NEAR,
    ProcessRow,
    is_surely_alone,
    living,
    members,
    signal_all,
    with_mark,
)
from tests.support.patience import WITHIN_S

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
    """A shell in a session of its own that has written a line, so it has its environment."""
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


def test_marks_are_listed_outermost_first() -> None:
    assert with_mark({"A": "b"}, "x.1") == {"A": "b", MARK: "x.1;"}
    assert with_mark({MARK: "x.1;"}, "y.2")[MARK] == "x.1;y.2;"


def test_strangers_with_a_mark_belong_to_its_family(sleepers: list[subprocess.Popen[bytes]]) -> None:
    own = f"m.{token_hex(4)}"
    for mark in (f"{own}.1", f"{own}.12", f"{own}.2"):
        sleepers.append(start("echo; read", **with_mark(dict(os.environ), mark)))
    found = members({NOBODY: f"{own}.1", NOBODY + 1: f"{own}.2", NOBODY + 2: f"{own}.3"})
    assert {leader: [row.pid for row in rows] for leader, rows in found.items()} == {
        NOBODY: [sleepers[0].pid],
        NOBODY + 1: [sleepers[2].pid],
        NOBODY + 2: [],
    }


def test_a_leader_and_its_children_belong_to_the_family(sleepers: list[subprocess.Popen[bytes]]) -> None:
    leader = start("env -i setsid sleep 200 & env -i sleep 200 & echo; wait")
    sleepers.append(leader)
    found = members({leader.pid: "no mark at all"})[leader.pid]
    assert len(found) == 3
    signal_all(found, 9)
    leader.wait(WITHIN_S)
    assert {row.pid for row in living(found)} <= {row.pid for row in found} - {leader.pid}


def test_who_waits_to_be_collected_counts_as_gone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    sleepers.append(sleeper)
    found = members({sleeper.pid: "none"})[sleeper.pid]
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert living(found) == []
    signal_all(found, 15)


def test_a_number_that_was_given_to_another_is_left_alone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    sleepers.append(sleeper)
    [row] = members({sleeper.pid: "none"})[sleeper.pid]
    signal_all([row._replace(born=row.born - 1)], 9)
    assert living([row]) == [row]


@pytest.mark.parametrize("command", ["setsid sleep 200 & echo", "sleep 200 & echo"])
def test_who_may_have_left_somebody_is_not_taken_for_alone(command: str) -> None:
    mark = f"f.{token_hex(4)}"
    with start(command, **{MARK: f"{mark};"}) as leader:
        assert leader.wait(WITHIN_S) == 0
    is_alone = is_surely_alone(leader.pid, mark)
    left = members({leader.pid: mark})[leader.pid]
    signal_all(left, 9)
    assert (is_alone, len(left)) == (False, 1)


def test_who_began_long_ago_is_not_taken_for_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for newest in (0, NOBODY - 1, NOBODY + NEAR + 1):
        monkeypatch.setattr("mcpdesk.jobs.process_table.newest", lambda newest=newest: newest)
        assert not is_surely_alone(NOBODY, "f.1")


MANY = 8


def started(command: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(["bash", "-c", command], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    return child


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each look was for."""
    counted: list[int] = []
    read = members

    def looking(jobs: dict[int, str], keepers: dict[int, int]) -> dict[int, list[ProcessRow]]:
        counted.append(len(jobs))
        return read(jobs, keepers)

    monkeypatch.setattr("mcpdesk.jobs.process.members", looking)
    return counted


async def test_one_look_serves_all_that_end_at_once(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", WITHIN_S)
    children = [started("sleep 300 & echo; wait") for _ in range(MANY)]
    ended = FamilyReaper()
    found = await asyncio.gather(*(ended.end(child.pid, "e.1") for child in children))
    assert found == [2] * MANY
    assert looks[0] == MANY and sum(looks[1:]) == MANY
    for child in children:
        assert child.wait(WITHIN_S) == -15


async def test_who_ignores_term_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TERM_GRACE_S", TERM_GRACE_S / 10)
    child = started("trap '' TERM; sleep 300 & echo; while :; do wait; done")
    assert await FamilyReaper().end(child.pid, "e.2") == 2
    assert child.wait(WITHIN_S) == -9


async def test_nobody_is_left_to_end(looks: list[int]) -> None:
    assert await FamilyReaper().end(os.getpid() + 2**22, "e.3") == 0
    assert looks == [1]
