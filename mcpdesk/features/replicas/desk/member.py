"""A replica that a desk has joined."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from mcpdesk.features.replicas.desk.replica_source import FoundReplica
from mcpdesk.link.core_copy import CoreCopy
from mcpdesk.link.values import ShownCoreState

ALARM_S: Final = 600.0
"""Seconds after the loss of a replica for which it is shown as lost. Later it is shown as ended."""


@dataclass(eq=False)
class Member:
    """Replica that a desk has joined, with the state of the connection."""

    replica: FoundReplica
    copy: CoreCopy
    follow_task: asyncio.Task[None] | None = None
    """Task that keeps `copy` up to date, or None while the desk is not connected to the replica."""
    is_paused: bool = False
    """True if the link disconnected from the replica because the link has no viewers."""
    is_refused: bool = False
    """True if the replica sent invalid data."""
    has_left: bool = False
    """True if the replica shut down normally."""
    ended_at: float = 0.0
    """Monotonic time of the last disconnection."""

    @property
    def is_over(self) -> bool:
        """True if the replica has ended or if the connection to it is closed."""
        return bool(self.copy.view().gone)

    @property
    def state(self) -> ShownCoreState:
        """State that is shown for the replica."""
        view = self.copy.view()
        if view.gone:
            is_alarm = not self.has_left and time.monotonic() - self.ended_at < ALARM_S
            return ShownCoreState.GONE if is_alarm else ShownCoreState.ENDED
        return ShownCoreState.SILENT if view.silent_s else ShownCoreState.LIVING

    def has(self, server: str) -> bool:
        """Return True if the replica has a server of this name."""
        return any(each.name == server for each in self.copy.view().servers)

    def cancel(self) -> None:
        """Stop following the replica."""
        if self.follow_task is not None:
            self.follow_task.cancel()
