"""The processes of a job: its session, their descendants, and whoever carries its mark.

A program that starts a session of its own and forks twice leaves group, session and tree behind. Where a
keeper adopts it, it is still a descendant of that. Elsewhere the mark, an environment variable, finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping

from mcpdesk.jobs.process_table import MARK, ProcessRow, lives, look, marks, newest, rows

NEAR = 64
"""Up to so many numbers given out since a program began are looked at one by one."""

NO_SESSION = 0
"""That of the kernel's threads, and of who came into our container from outside."""


def marked(environment: dict[str, str], mark: str) -> dict[str, str]:
    """The environment with one more mark."""
    return environment | {MARK: f"{environment.get(MARK, '')}{mark};"}


def members(jobs: Mapping[int, str], keepers: Mapping[int, int] | None = None) -> dict[int, list[ProcessRow]]:
    """Every living process of each job, found in one look. Takes milliseconds.

    A job is its leader, who counts while it lives, and its mark. `keepers` has the keeper of a leader; it
    adopts what the job leaves behind, and is no member itself.
    """
    table = look()
    leaders_kept = {keeper: leader for leader, keeper in (keepers or {}).items() if keeper}
    leaders = {mark: leader for leader, mark in jobs.items()}
    found: dict[int, dict[int, ProcessRow]] = {leader: {} for leader in jobs}
    for row in table.values():
        if row.session in found:
            found[row.session][row.pid] = row
        elif row.parent in leaders_kept:
            found[leaders_kept[row.parent]][row.pid] = row
        elif mark := next((mark for mark in _marks(row) if mark in leaders), None):
            found[leaders[mark]][row.pid] = row
    children = _children(table.values())
    for family in found.values():
        _add_descendants(family, children)
    return {leader: living(family.values()) for leader, family in found.items()}


def is_surely_alone(leader: int, mark: str) -> bool:
    """Whether nobody of a program's family is left, seen at a glance; False: it takes `members` to tell.

    Only for a program that began so recently that numbers cannot have come round.
    """
    made = newest() - leader
    if not 0 <= made <= NEAR:
        return False
    young = rows(range(leader + 1, leader + made + 1)).values()
    return not any(row.session == leader or mark in _marks(row) for row in young)


def living(processes: Iterable[ProcessRow]) -> list[ProcessRow]:
    """Those that still run; what only waits to be collected by its parent counts as gone."""
    return [process for process in processes if lives(process)]


def signal_all(processes: Iterable[ProcessRow], number: int) -> None:
    """Send a signal to each; who is gone or not ours is left alone."""
    for process in processes:
        if lives(process):
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)


def _marks(row: ProcessRow) -> list[str]:
    return [] if row.is_zombie or row.session == NO_SESSION else marks(row.pid).split(";")


def _children(table: Iterable[ProcessRow]) -> dict[int, list[ProcessRow]]:
    children: dict[int, list[ProcessRow]] = {}
    for row in table:
        children.setdefault(row.parent, []).append(row)
    return children


def _add_descendants(family: dict[int, ProcessRow], children: Mapping[int, list[ProcessRow]]) -> None:
    new = list(family.values())
    while new:
        new = [child for row in new for child in children.get(row.pid, ()) if child.pid not in family]
        family.update((row.pid, row) for row in new)


TERM_GRACE_S = 2.0
"""Between TERM and KILL."""
KILL_GRACE_S = 0.5
KILL_ROUNDS = 10
"""A family that forks while it is being killed needs more than one."""
FIRST_LOOK_S, LAST_LOOK_S = 0.002, 0.03
"""How soon, and how often at last, it is looked whether those that got a signal are gone."""


class FamilyReaper:
    """Families that are being ended."""

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}
        """Families to look for at the next look, and the keepers of those that have one."""
        self._keepers: dict[int, int] = {}
        self._looking: asyncio.Task[dict[int, list[ProcessRow]]] | None = None
        self._next_look = 0.0

    async def end(self, leader: int, mark: str, keeper: int = 0) -> int:
        """End a job's family; returns how many there were that did not end by themselves."""
        first = left = await self._members(leader, mark, keeper)
        await self._signal(left, signal.SIGTERM, TERM_GRACE_S)
        for _ in range(KILL_ROUNDS):
            if not left:
                break
            left = await self._members(leader, mark, keeper)
            await self._signal(left, signal.SIGKILL, KILL_GRACE_S)
        return sum(not row.is_ending for row in first)

    async def _members(self, leader: int, mark: str, keeper: int) -> list[ProcessRow]:
        self._asked[leader] = mark
        self._keepers[leader] = keeper
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return (await self._looking)[leader]

    async def _look(self) -> dict[int, list[ProcessRow]]:
        """Look for all that are asked for until it begins."""
        await asyncio.sleep(max(0.0, self._next_look - time.monotonic()))
        asked, self._asked, self._looking = self._asked, {}, None
        keepers, self._keepers = self._keepers, {}
        began = time.monotonic()
        found = members(asked, keepers)
        ended = time.monotonic()
        self._next_look = ended + (ended - began)
        return found

    async def _signal(self, processes: list[ProcessRow], number: int, patience_s: float) -> None:
        signal_all(processes, number)
        deadline, pause = time.monotonic() + patience_s, FIRST_LOOK_S
        while (processes := living(processes)) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_S)
