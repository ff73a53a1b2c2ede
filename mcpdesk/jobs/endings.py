"""Ends whole families: TERM, then KILL until nobody is left. One look at all processes serves all families.

Used on the supervisor's loop, which a look holds up; the next one comes no sooner than the last one took.
"""

from __future__ import annotations

import asyncio
import signal
import time

from mcpdesk.jobs import family
from mcpdesk.jobs.process_table import Row

TERM_GRACE_S = 2.0
"""Between TERM and KILL."""
KILL_GRACE_S = 0.5
KILL_ROUNDS = 10
"""A family that forks while it is being killed needs more than one."""
FIRST_LOOK_S, LAST_LOOK_S = 0.002, 0.03
"""How soon, and how often at last, it is looked whether those that got a signal are gone."""


class Endings:
    """Families that are being ended."""

    def __init__(self) -> None:
        self._asked: dict[int, str] = {}
        """Families to look for at the next look, and the keepers of those that have one."""
        self._keepers: dict[int, int] = {}
        self._looking: asyncio.Task[dict[int, list[Row]]] | None = None
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

    async def _members(self, leader: int, mark: str, keeper: int) -> list[Row]:
        self._asked[leader] = mark
        self._keepers[leader] = keeper
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        return (await self._looking)[leader]

    async def _look(self) -> dict[int, list[Row]]:
        """Look for all that are asked for until it begins."""
        await asyncio.sleep(max(0.0, self._next_look - time.monotonic()))
        asked, self._asked, self._looking = self._asked, {}, None
        keepers, self._keepers = self._keepers, {}
        began = time.monotonic()
        found = family.members(asked, keepers)
        ended = time.monotonic()
        self._next_look = ended + (ended - began)
        return found

    async def _signal(self, processes: list[Row], number: int, patience_s: float) -> None:
        family.signal_all(processes, number)
        deadline, pause = time.monotonic() + patience_s, FIRST_LOOK_S
        while (processes := family.living(processes)) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_S)
