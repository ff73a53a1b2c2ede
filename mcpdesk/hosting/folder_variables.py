"""Variables of a folder's env file that are no settings: they are in our environment while it lacks them.

What the environment says itself wins, and so does the folder that was read first.
"""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from mcpdesk.errors import DeskUserError
from mcpdesk.settings import ENV_FILE, is_setting, read_env_file

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FolderVariables:
    """Those of one folder."""

    def __init__(self, folder: Path, environment: MutableMapping[str, str] = os.environ) -> None:
        self._path = folder / ENV_FILE
        self._environment = environment
        self._given: set[str] = set()
        """What is in the environment because of us."""

    def refresh(self) -> None:
        """Read the file again. Raises: DeskUserError for a mistake in it; nothing has changed then."""
        wanted = {}
        for name, value, line in read_env_file(self._path):
            if not NAME.fullmatch(name) or "\0" in value:
                told = f"{self._path.name}:{line}: {name!r} cannot be a variable."
                raise DeskUserError(told, "A name has letters, digits and '_'.")
            if not is_setting(name):
                wanted[name] = value
        for name in self._given - wanted.keys():
            self._environment.pop(name, None)
        self._given &= wanted.keys()
        for name, value in wanted.items():
            if name in self._given or name not in self._environment:
                self._environment[name] = value
                self._given.add(name)

    def withdraw(self) -> None:
        """The folder is hosted no longer."""
        for name in self._given:
            self._environment.pop(name, None)
        self._given.clear()
