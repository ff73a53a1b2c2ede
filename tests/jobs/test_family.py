"""A job's processes are found by session, by descent and by mark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from mcpdesk.jobs.family import MARK, living, marked, members, signal_all


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for sleeper in started:
        sleeper.kill()
        sleeper.wait(5)


def test_marks_are_listed_outermost_first() -> None:
    assert marked({"A": "b"}, "x.1") == {"A": "b", MARK: "x.1;"}
    assert marked({MARK: "x.1;"}, "y.2")[MARK] == "x.1;y.2;"


def test_a_stranger_with_the_mark_belongs_to_the_family(sleepers: list[subprocess.Popen[bytes]]) -> None:
    for mark in ("m.1", "m.12", "m.2"):
        sleepers.append(subprocess.Popen(["sleep", "200"], env=marked(dict(os.environ), mark)))
    assert [process.pid for process in members(2**22 + 1, "m.1")] == [sleepers[0].pid]


def test_a_leader_and_its_children_belong_to_the_family(sleepers: list[subprocess.Popen[bytes]]) -> None:
    leader = subprocess.Popen(
        ["bash", "-c", "env -i sleep 200 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    sleepers.append(leader)
    assert leader.stdout is not None
    leader.stdout.readline()
    found = members(leader.pid, "no mark at all")
    assert len(found) == 2
    signal_all(found, 9)
    leader.wait(5)
    leader.stdout.close()
    assert living(found) in ([], found[1:])


def test_who_waits_to_be_collected_counts_as_gone(sleepers: list[subprocess.Popen[bytes]]) -> None:
    sleeper = subprocess.Popen(["sleep", "200"], start_new_session=True)
    sleepers.append(sleeper)
    found = members(sleeper.pid, "none")
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert living(found) == []
    signal_all(found, 15)
