"""Several cores on this machine, shown as the replicas of one desk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.link.remote import RunningCore, join, running_cores


class LocalReplicas:
    """Finds the cores on this machine that a person named (implements `ReplicaSource`).

    `look` also finds a core with one of the names that starts later.
    """

    shares_state = False
    reports_ended_replicas = False

    def __init__(self, names: Sequence[str], state: str | None = None) -> None:
        """`names` has names of servers and process ids.

        `state` is the state folder, "" for the default one, or None to read the environment.
        """
        self.title = ", ".join(names)
        self._selectors = names
        self._state_folder = state
        self._names: dict[int, str] = {}
        """Display names of the cores, by process id."""

    async def look(self) -> list[FoundReplica]:
        """Return the living cores. Raises: OSError."""
        cores = await asyncio.to_thread(running_cores, self._state_folder)
        self._names = {
            pid: name for pid, name in self._names.items() if pid in {c.welcome.pid for c in cores}
        }
        selected = [(core, name) for core in cores if (name := self._selector(core)) is not None]
        return [
            FoundReplica(
                str(core.welcome.pid), self._name(core, name), core.welcome, partial(join, core.path)
            )
            for core, name in selected
        ]

    async def has_left(self, key: str) -> bool:
        """Return False, because a local core leaves no record of why it ended."""
        return False

    async def close(self) -> None:
        """Do nothing."""

    def _selector(self, core: RunningCore) -> str | None:
        """Return the first given name or process id that a core has, or None if the core has none of them."""
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
