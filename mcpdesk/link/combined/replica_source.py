"""Where a desk finds the cores it can join, whatever way leads to them."""

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
    """What tells it from every other core there ever was."""
    name: str
    """What a person calls it."""
    core: Welcome
    join: Callable[[], Awaitable[tuple[Welcome, Wire]]]
    """Raises: EOFError or OSError when it cannot be joined."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """By server, a digest of the files it is made of."""


class ReplicaSource(Protocol):
    """Where replicas are found."""

    @property
    def title(self) -> str:
        """How to speak of it."""

    @property
    def shares_state(self) -> bool:
        """Whether what is decided on one replica holds on all by itself."""

    @property
    def knows_the_ended(self) -> bool:
        """Whether a replica that is not found any more has ended."""

    async def look(self) -> list[FoundReplica]:
        """The replicas that live. Raises: OSError when nobody can tell."""

    async def has_left(self, key: str) -> bool:
        """Whether a replica that is not found any longer was asked to end. False where that is not known."""

    async def close(self) -> None:
        """Nobody looks any more."""
