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

from mcpdesk.jobs.process_table import MARK, ProcessRow, all_processes, marks, newest, rows, still_runs

NEAR = 64
"""Up to this many processes started since a program began are checked one by one."""

TERM_GRACE_S = 2.0
"""Between TERM and KILL."""
KILL_GRACE_S = 0.5
KILL_ROUNDS = 10
"""A family that forks while it is being killed needs more than one round."""
FIRST_LOOK_S, LAST_LOOK_S = 0.002, 0.03
"""The first and the longest pause between checks whether signalled processes are gone."""
NO_SESSION = 0
"""The session of kernel threads, and of processes that entered our container from outside."""


def with_mark(environment: dict[str, str], mark: str) -> dict[str, str]:
    """A copy of the environment with one more mark."""
    return environment | {MARK: f"{environment.get(MARK, '')}{mark};"}


def members(jobs: Mapping[int, str], keepers: Mapping[int, int] | None = None) -> dict[int, list[ProcessRow]]:
    """Every living process of each job, by the job's leader. Reads all processes, which takes milliseconds.

    `jobs` maps leaders to marks, `keepers` leaders to their keepers: a keeper adopts what the job leaves
    behind, and is no member itself.
    """
    table = all_processes()
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
    """Whether certainly nothing of a program's family is left; False means that `members` has to tell.

    Only for a program that began so recently that no process number can have been given twice.
    """
    made = newest() - leader
    if not 0 <= made <= NEAR:
        return False
    young = rows(range(leader + 1, leader + made + 1)).values()
    return not any(row.session == leader or mark in _marks(row) for row in young)


def living(processes: Iterable[ProcessRow]) -> list[ProcessRow]:
    """The processes that still run; a zombie counts as gone."""
    return [process for process in processes if still_runs(process)]


def signal_all(processes: Iterable[ProcessRow], number: int) -> None:
    """Send a signal to each process. Those that are gone or not ours are skipped."""
    for process in processes:
        if still_runs(process):
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


class FamilyReaper:
    """Ends whole families: TERM, then KILL until nothing is left.

    Used on the supervisor's loop, and one read of all processes serves all families. As a read holds up the
    loop, the next one comes no sooner than the last one took.
    """

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}
        """The leaders and marks of the next read of all processes; `_keepers` has their keepers."""
        self._keepers: dict[int, int] = {}
        self._looking: asyncio.Task[dict[int, list[ProcessRow]]] | None = None
        self._next_look = 0.0

    async def end(self, leader: int, mark: str, keeper: int = 0) -> int:
        """End a job's family. Returns how many processes were not already ending by themselves."""
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
        """Find the members of all families asked for until it begins."""
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
