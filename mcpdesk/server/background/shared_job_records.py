"""Base class of stored jobs that several processes share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job


class SharedJobRecords(ABC):
    """Stored jobs of one server. Each job has the state that any of the processes wrote last. Used on the
    core's loop.
    """

    @abstractmethod
    async def find(self, identifier: str, owner: str) -> Job | None:
        """Return a copy of a job, or None if the owner has no such job. Raises: StorageError."""

    @abstractmethod
    async def find_all(self, identifiers: Sequence[str], owner: str) -> list[Job | None]:
        """Return copies of jobs of an owner, in the order of their ids. Raises: StorageError."""

    @abstractmethod
    async def list_jobs(self, owner: str, is_task: bool) -> list[Job]:
        """Return copies of all jobs of an owner, oldest first. Raises: StorageError."""

    @abstractmethod
    async def wait_for_end(self, job: Job, within_s: float | None = None) -> Job:
        """Wait for the end of a job of another process, at most `within_s` seconds.

        Return its last state. Raises: StorageError.
        """

    @abstractmethod
    async def cancel(self, job: Job, reason: str) -> Job:
        """Ask another process to end its job, and return its last state. Raises: StorageError."""
