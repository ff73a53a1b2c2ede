"""What a hosted server has besides what it offers: a place for state that outlives a call.

Everything here is made at its first use, so that a server that keeps nothing costs nothing.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.server.planning import Plan, recall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpdesk.jobs.programs import Programs
    from mcpdesk.storage.database import Database


class Home:
    """A server's own folder of files, and a folder for state. Used on the core's loop."""

    def __init__(self, folder: Path, state: Path, skills: Sequence[Path] = ()) -> None:
        self.plan: Plan | None = None
        """What is being planned, or was last."""
        self.skills = tuple(skills)
        """Folders with a folder for each skill; the first one that has a name counts."""
        self.folder = folder
        """The server folder: programs run here."""
        self.state = state
        """A folder of this server alone, for what outlives a call; made when something is put there."""

    @property
    def outputs(self) -> Path:
        """Where programs' long outputs go."""
        return self.state / "outputs"

    @cached_property
    def data(self) -> Database:
        """The server's state file."""
        from mcpdesk.storage.database import Database

        return Database(self._file)

    @cached_property
    def programs(self) -> Programs:
        """Programs in the background."""
        from mcpdesk.jobs.programs import Programs

        return Programs(self.state / "programs")

    @property
    def _file(self) -> Path:
        return self.state / "state.sqlite"

    async def wake(self) -> None:
        """Take up what a previous run left. Raises: StorageError."""
        if self._file.exists():
            await recall(self)

    async def close(self) -> None:
        """The server stops."""
        if "programs" in self.__dict__:
            await self.programs.close()
        if "data" in self.__dict__:
            self.data.close()
