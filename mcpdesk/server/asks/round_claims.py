"""Base class for claims of rounds. A claim ensures that only one of several processes runs a round."""

from __future__ import annotations

from abc import ABC, abstractmethod


class RoundClaims(ABC):
    """Claims of one process, by digest of the `requestState` that the client returned.

    Every method may raise StorageError.
    """

    @abstractmethod
    async def claim(self, state: str, ttl_s: float) -> str:
        """Claim a round for this process. Return an empty string if the round may run here.

        Otherwise return `running` if another process runs the round, `ended` if the round has its final
        result, or `lost` if the process that ran the round ended without a result.
        """

    @abstractmethod
    async def ask(self, state: str) -> None:
        """Record that the handler waits for the client. If this process ends, another process may then run
        the handler again.
        """

    @abstractmethod
    async def end(self, state: str) -> None:
        """Record that a round of this process has its final result."""

    @abstractmethod
    async def release(self, state: str) -> None:
        """Give up a round of this process, so that any process may run it."""
