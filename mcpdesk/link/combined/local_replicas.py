"""Several cores of this user on this machine as the replicas of one desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mcpdesk.link.combined.replica_source import FoundReplica
from mcpdesk.link.remote import RunningCore, join, running_cores


class LocalReplicas:
    """Implements `ReplicaSource`: the cores a person named, and those of the same names that come later."""

    shares_state = False
    knows_the_ended = False

    def __init__(self, named: Sequence[str], state: str | None = None) -> None:
        """`named` are names of servers, and pids; `state` as for `running_cores`."""
        self.title = ", ".join(named)
        self._named = named
        self._state = state
        self._names: dict[int, str] = {}
        """By pid, what a core is called."""

    async def look(self) -> list[FoundReplica]:
        """The cores that live. Raises: OSError."""
        cores = await asyncio.to_thread(running_cores, self._state)
        self._names = {
            pid: name for pid, name in self._names.items() if pid in {c.welcome.pid for c in cores}
        }
        chosen = [(core, who) for core in cores if (who := self._who(core)) is not None]
        return [
            FoundReplica(str(core.welcome.pid), self._name(core, who), core.welcome, partial(join, core.path))
            for core, who in chosen
        ]

    async def has_left(self, key: str) -> bool:
        """False: a core that ends leaves nothing that says why."""
        return False

    async def close(self) -> None:
        """There is nothing to close."""

    def _who(self, core: RunningCore) -> str | None:
        """By which of the names a core is meant."""
        pid = str(core.welcome.pid)
        return next((who for who in self._named if who == pid or who in core.welcome.names), None)

    def _name(self, core: RunningCore, who: str) -> str:
        """The name that was typed, and the pid where several cores have it."""
        pid = core.welcome.pid
        if pid not in self._names:
            self._names[pid] = who if who not in self._names.values() else f"{who}:{pid}"
        return self._names[pid]
