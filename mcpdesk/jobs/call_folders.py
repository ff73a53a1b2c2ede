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
        self._used: set[Path] = set()
        self._lock = Lock()

    def begin(self) -> Path:
        """A new folder, in use until `end`. Removes old ones. Raises: OSError when it cannot be made."""
        self._make_room()
        folder = self.root / f"{time.time_ns()}-{os.getpid()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700, parents=True)
        with self._lock:
            self._used.add(folder)
        return folder

    def end(self, folder: Path) -> None:
        """Nothing more is put into it; an empty one is removed."""
        with self._lock:
            self._used.discard(folder)
        for place, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(place)
            except OSError:  # it holds something
                continue

    def _make_room(self) -> None:
        try:
            every = sorted(self.root.iterdir(), reverse=True)
        except FileNotFoundError:
            return
        held = 0
        for number, folder in enumerate(every, 2):
            held += _size(folder)
            with self._lock:
                is_used = folder in self._used
            if (number > self._most or held > self._most_bytes) and not is_used:
                shutil.rmtree(folder, ignore_errors=True)


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
