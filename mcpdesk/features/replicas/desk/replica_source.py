"""Interface through which a desk finds cores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcpdesk.link.attach_messages import Welcome
from mcpdesk.link.core_copy import Wire


@dataclass(frozen=True)
class FoundReplica:
    """Core that a desk can connect to."""

    key: str
    """Identifier of the core. It is never used for another core."""
    name: str
    """Display name."""
    core: Welcome
    join: Callable[[], Awaitable[tuple[Welcome, Wire]]]
    """Function that connects to the core. Raises: EOFError or OSError if the core cannot be reached."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Digest of each server's files, by name of the server."""


class ReplicaSource(Protocol):
    """Interface of an object that finds replicas."""

    @property
    def title(self) -> str:
        """Display name of the source."""

    @property
    def shares_state(self) -> bool:
        """True if the replicas share state. A decision on one replica then applies to all."""

    @property
    def reports_ended_replicas(self) -> bool:
        """True if a replica that is missing from the result of `look` has certainly ended."""

    async def look(self) -> list[FoundReplica]:
        """Return the living replicas. Raises: OSError if the source cannot be reached."""

    async def has_left(self, key: str) -> bool:
        """Return True if a missing replica shut down normally. False if the reason is unknown."""

    async def close(self) -> None:
        """Release the resources of the source."""
