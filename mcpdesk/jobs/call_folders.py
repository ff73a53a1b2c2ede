"""Folders for the files single calls make: one for each, kept until there are many. Used on any thread."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from pathlib import Path
from threading import Lock

KEPT = 1000
KEPT_BYTES = 4 << 30
"""What the kept ones hold together; the oldest go first, and none that is in use."""


class CallFolders:
    """Those of one server, below `root`."""

    def __init__(self, root: Path, most: int = KEPT, most_bytes: int = KEPT_BYTES) -> None:
        self.root = root
        self._most, self._most_bytes = most, most_bytes
        self._lock = Lock()
        self._sizes: dict[Path, int | None] | None = None
        """Bytes of each, oldest first; None for one in use. Not looked at before the first call."""

    def begin(self) -> Path:
        """A new folder, in use until `end`. Removes old ones. Raises: OSError when it cannot be made."""
        folder = self.root / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}"
        with self._lock:
            if self._sizes is None:
                self._sizes = {each: _size(each) for each in _folders(self.root)}
            surplus = self._surplus(self._sizes)
            for old in surplus:
                del self._sizes[old]
        for old in surplus:
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        with self._lock:
            self._sizes[folder] = None
        return folder

    def end(self, folder: Path) -> None:
        """Nothing more is put into it; an empty one is removed."""
        for place, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(place)
            except OSError:  # it holds something
                continue
        size = _size(folder) if folder.exists() else None
        with self._lock:
            assert self._sizes is not None
            if size is None:
                del self._sizes[folder]
            else:
                self._sizes[folder] = size

    def _surplus(self, sizes: dict[Path, int | None]) -> list[Path]:
        """Those that make room for one more."""
        found, number, held = [], 1, 0
        for folder, size in reversed(sizes.items()):
            number, held = number + 1, held + (size or 0)
            if (number > self._most or held > self._most_bytes) and size is not None:
                found.append(folder)
        return found


def _folders(root: Path) -> list[Path]:
    """What earlier runs left; their names sort by age."""
    try:
        return sorted(root.iterdir())
    except FileNotFoundError:
        return []


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
