"""Several cores on this machine, shown as the replicas of one desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.link.remote import RunningCore, join, running_cores


class LocalReplicas:
    """Finds the cores that a person named (implements `ReplicaSource`).

    A core that starts later and has one of the names is found as well.
    """

    shares_state = False
    reports_ended_replicas = False

    def __init__(self, names: Sequence[str], state: str | None = None) -> None:
        """`names` has names of servers and process ids.

        `state` has the same meaning as in `running_cores`.
        """
        self.title = ", ".join(names)
        self._named = names
        self._state = state
        self._names: dict[int, str] = {}
        """Display names of the cores, by process id."""

    async def look(self) -> list[FoundReplica]:
        """Return the living cores. Raises: OSError."""
        cores = await asyncio.to_thread(running_cores, self._state)
        self._names = {
            pid: name for pid, name in self._names.items() if pid in {c.welcome.pid for c in cores}
        }
        chosen = [(core, who) for core in cores if (who := self._selector(core)) is not None]
        return [
            FoundReplica(str(core.welcome.pid), self._name(core, who), core.welcome, partial(join, core.path))
            for core, who in chosen
        ]

    async def has_left(self, key: str) -> bool:
        """Return False, because a local core leaves no record of why it ended."""
        return False

    async def close(self) -> None:
        """Do nothing."""

    def _selector(self, core: RunningCore) -> str | None:
        """Return the name or process id with which the person selected a core, or None if the core was not
        selected.
        """
        pid = str(core.welcome.pid)
        return next((who for who in self._named if who == pid or who in core.welcome.names), None)

    def _name(self, core: RunningCore, who: str) -> str:
        """Return the display name of a core: the name that selected it.

        If the name is ambiguous, add the process id.
        """
        pid = core.welcome.pid
        if pid not in self._names:
            self._names[pid] = who if who not in self._names.values() else f"{who}:{pid}"
        return self._names[pid]
