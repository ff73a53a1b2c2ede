"""The task lists of a server for whoever follows them: the newest tasks, read when somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.storage.database import Database
    from mcpdesk.storage.tasks import Task

NEWEST = 100
"""Tasks in a snapshot."""


class Todo:
    """What TaskManager keeps. `snapshot`, `version` and `is_stale` may be read on any thread."""

    def __init__(self, data: Database) -> None:
        self.version = 0
        """Grows with every snapshot that differs from the one before."""
        self.snapshot: tuple[Task, ...] = ()
        """The newest tasks, oldest first."""
        self.is_stale = True
        """Whether something changed since the snapshot was taken."""
        self._data = data

    def changed(self) -> None:
        """Something was written."""
        self.is_stale = True

    async def refresh(self) -> None:
        """Take a new snapshot. Raises: StorageError."""
        from mcpdesk.storage import tasks

        self.is_stale = False
        snapshot = tuple(await self._data.run(lambda connection: tasks.named(connection, "", NEWEST)))
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self.version += 1
