"""Interface through which a desk finds the cores it can join."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcpdesk.link.attach_messages import Welcome
from mcpdesk.link.core_copy import Wire


@dataclass(frozen=True)
class FoundReplica:
    """A core that a desk can join."""

    key: str
    """Identifier that is never reused for another core."""
    name: str
    """Display name."""
    core: Welcome
    join: Callable[[], Awaitable[tuple[Welcome, Wire]]]
    """Joins the core. Raises: EOFError or OSError if it cannot be joined."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Digest of the files of each server, by server."""


class ReplicaSource(Protocol):
    """Interface to find replicas."""

    @property
    def title(self) -> str:
        """Display name of the source."""

    @property
    def shares_state(self) -> bool:
        """True if a decision on one replica applies to all of them."""

    @property
    def knows_the_ended(self) -> bool:
        """True if a replica that is no longer found has ended."""

    async def look(self) -> list[FoundReplica]:
        """Return the living replicas. Raises: OSError if the source cannot be reached."""

    async def has_left(self, key: str) -> bool:
        """Return True if a replica that is no longer found shut down normally. False if that is unknown."""

    async def close(self) -> None:
        """Release the resources of the source."""
