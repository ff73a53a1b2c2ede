"""Many families are ended together."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from mcpdesk.jobs import process_family
from mcpdesk.jobs.process_family import TERM_GRACE_S, Endings
from mcpdesk.jobs.process_table import Row
from tests.support.patience import WITHIN_S

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
    members = process_family.members

    def looking(jobs: dict[int, str], keepers: dict[int, int]) -> dict[int, list[Row]]:
        counted.append(len(jobs))
        return members(jobs, keepers)

    monkeypatch.setattr("mcpdesk.jobs.process_family.members", looking)
    return counted


async def test_one_look_serves_all_that_end_at_once(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_family, "TERM_GRACE_S", WITHIN_S)
    children = [started("sleep 300 & echo; wait") for _ in range(MANY)]
    ended = Endings()
    found = await asyncio.gather(*(ended.end(child.pid, "e.1") for child in children))
    assert found == [2] * MANY
    assert looks[0] == MANY and sum(looks[1:]) == MANY
    for child in children:
        assert child.wait(WITHIN_S) == -15


async def test_who_ignores_term_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_family, "TERM_GRACE_S", TERM_GRACE_S / 10)
    child = started("trap '' TERM; sleep 300 & echo; while :; do wait; done")
    assert await Endings().end(child.pid, "e.2") == 2
    assert child.wait(WITHIN_S) == -9


async def test_nobody_is_left_to_end(looks: list[int]) -> None:
    assert await Endings().end(os.getpid() + 2**22, "e.3") == 0
    assert looks == [1]
