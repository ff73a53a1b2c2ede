"""One of the replicas that a desk has joined."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from mcpdesk.link.combined.replica_source import FoundReplica
from mcpdesk.link.core_copy import CoreCopy
from mcpdesk.link.values import ReplicaState

ALARM_S: Final = 600.0
"""Seconds for which a lost replica is an alarm; then it is one of those that have ended."""


@dataclass(eq=False)
class Member:
    """A replica that was joined."""

    found: FoundReplica
    copy: CoreCopy
    following: asyncio.Task[None] | None = None
    is_paused: bool = False
    """Whether it was left because nobody looks."""
    is_refused: bool = False
    """Whether it sent what cannot be shown."""
    has_left: bool = False
    """Whether it was asked to end, and did."""
    ended: float = 0.0
    """Monotonic time at which it was left or lost last."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self.copy.view().gone)

    @property
    def state(self) -> ReplicaState:
        """State that is shown of it."""
        view = self.copy.view()
        if view.gone:
            is_alarm = not self.has_left and time.monotonic() - self.ended < ALARM_S
            return ReplicaState.GONE if is_alarm else ReplicaState.ENDED
        return ReplicaState.SILENT if view.silent_s else ReplicaState.LIVING

    def has(self, server: str) -> bool:
        """Whether it has a server of that name."""
        return any(each.name == server for each in self.copy.view().servers)

    def cancel(self) -> None:
        """Follow it no longer."""
        if self.following is not None:
            self.following.cancel()
