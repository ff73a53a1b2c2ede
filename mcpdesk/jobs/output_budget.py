"""Disk space that the outputs of one server's programs share.

The used space is the result of the last scan of the folders plus the bytes written since that scan. When the
space is used up, the oldest files that no process writes are deleted. A program whose output still does not
fit continues without a file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from mcpdesk import private_files

_FREED_DIVISOR: Final = 16
"""At least 1/_FREED_DIVISOR of the space is freed at a time, because a scan of the folders is slow."""
_log = logging.getLogger(__name__)


class _File(NamedTuple):
    modified_at: float
    """Unix time in seconds. The first field, so that files sort from the oldest to the newest."""
    path: Path
    size: int


class OutputBudget:
    """Counts the bytes in some folders and deletes old files. Safe on any thread."""

    def __init__(self, max_bytes: int, folders: Sequence[Path]) -> None:
        """`folders` contain the files, which may have `max_bytes` bytes together."""
        self.max_bytes = max_bytes
        self._folders = tuple(folders)
        self._lock = Lock()
        self._used_bytes = 0
        """Number of bytes that the last scan found, plus those reserved since."""
        self._reserved_bytes = 0
        """Number of bytes reserved since the last scan."""
        self._must_scan = True
        self._removal_callbacks: dict[Path, Callable[[str], None]] = {}
        """Functions to call when a file is deleted to make room, by file."""

    def watch(self, path: Path, on_removed: Callable[[str], None]) -> None:
        """Call `on_removed` with the reason if a file is deleted to make room."""
        with self._lock:
            self._removal_callbacks[path] = on_removed

    def unwatch(self, path: Path) -> None:
        """Undo `watch`."""
        with self._lock:
            self._removal_callbacks.pop(path, None)

    def give_back(self, size: int) -> None:
        """Release the space of a deleted file."""
        with self._lock:
            self._used_bytes -= size

    def reserve(self, size: int) -> int:
        """Make room for `size` more bytes. Return how many of them may be written."""
        with self._lock:
            # The folders are scanned again from time to time, because other processes may use them, too.
            if (
                self._must_scan
                or self._used_bytes + size > self.max_bytes
                or self._reserved_bytes > self.max_bytes // _FREED_DIVISOR
            ):
                self._make_room(size)
            granted = max(0, min(size, self.max_bytes - self._used_bytes))
            self._used_bytes += granted
            self._reserved_bytes += granted
            return granted

    def _make_room(self, size: int) -> None:
        """Scan the folders, and delete the oldest files if `size` bytes do not fit."""
        files = sorted(self._files())
        used_bytes = sum(file.size for file in files)
        max_used_bytes = self.max_bytes
        if used_bytes + size > self.max_bytes:
            max_used_bytes -= max(size, self.max_bytes // _FREED_DIVISOR)
        for file in files:
            if used_bytes <= max_used_bytes:
                break
            if not private_files.is_unused(file.path):
                continue
            with suppress(OSError):
                file.path.unlink()
                used_bytes -= file.size
                reason = "the outputs of programs exceed outputs_keep_bytes"
                _log.info("removed the output file %s (%s bytes): %s", file.path, f"{file.size:,}", reason)
                if (on_removed := self._removal_callbacks.pop(file.path, None)) is not None:
                    on_removed(f"the file with the output was removed: {reason}")
        self._used_bytes, self._reserved_bytes, self._must_scan = used_bytes, 0, False

    def _files(self) -> Iterator[_File]:
        for folder in self._folders:
            for path in folder.glob("*.txt"):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield _File(status.st_mtime, path, status.st_size)
