"""Several cores on this machine, shown as the replicas of one desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.link.remote import RunningCore, join, running_cores


class LocalReplicas:
    """Finds the cores on this machine that a person named (implements `ReplicaSource`).

    A matching core may start later: each call of `look` searches again.
    """

    shares_state = False
    reports_ended_replicas = False

    def __init__(self, selectors: Sequence[str], state_folder: str | None = None) -> None:
        """`selectors` has names of servers and process ids.

        `state_folder` is the path of the state folder, "" for the default one, or None to read the
        environment.
        """
        self.title = ", ".join(selectors)
        self._selectors = selectors
        self._state_folder = state_folder
        self._names: dict[int, str] = {}
        """Display names of the cores, by process id."""

    async def look(self) -> list[FoundReplica]:
        """Return the living cores. Raises: OSError."""
        cores = await asyncio.to_thread(running_cores, self._state_folder)
        living_pids = {core.welcome.pid for core in cores}
        self._names = {pid: name for pid, name in self._names.items() if pid in living_pids}
        replicas = list[FoundReplica]()
        for core in cores:
            if (selector := self._selector(core)) is not None:
                pid, name = str(core.welcome.pid), self._name(core, selector)
                replicas.append(FoundReplica(pid, name, core.welcome, partial(join, core.path)))
        return replicas

    async def has_left(self, key: str) -> bool:
        """Return False, because a local core leaves no record of why it ended."""
        return False

    async def close(self) -> None:
        """Do nothing."""

    def _selector(self, core: RunningCore) -> str | None:
        """Return the first selector that a core matches, or None if the core matches none."""
        pid = str(core.welcome.pid)
        return next((each for each in self._selectors if each == pid or each in core.welcome.names), None)

    def _name(self, core: RunningCore, selector: str) -> str:
        """Return the display name of a core: the name that selected it.

        If another core has this display name, append the process id.
        """
        pid = core.welcome.pid
        if pid not in self._names:
            self._names[pid] = selector if selector not in self._names.values() else f"{selector}:{pid}"
        return self._names[pid]
