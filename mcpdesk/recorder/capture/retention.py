"""Removal of old captures: files not written to for long, then the oldest until all fit in a size.

A capture that another living process writes is left alone, all its parts included: that process applies the
same limits to it. Of our own capture every part may be removed except the one that is being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import time

from msgspec import Struct

from mcpdesk import private_files
from mcpdesk.recorder.capture.capture_parts import PartFile, StoredCapture, stored_captures

_SHARE = 8
"""A part takes at most this share of the size of all captures, so that little is removed at a time."""
_LEAST_PART = 64 << 10


class Retention(Struct, frozen=True):
    """Limits on all captures in one folder."""

    max_bytes: int = 0
    """0: no limit."""
    max_age_s: float = 0.0
    """Seconds since the last write to a file; 0: no limit."""

    def part_bytes(self, max_file_bytes: int) -> int:
        """Largest size of one part, where `max_file_bytes` is wanted; 0: no limit."""
        share = max(_LEAST_PART, self.max_bytes // _SHARE) if self.max_bytes else 0
        return min(filter(None, (share, max_file_bytes)), default=0)

    @property
    def is_on(self) -> bool:
        """Whether there is any limit."""
        return bool(self.max_bytes or self.max_age_s)


UNLIMITED = Retention()


class RemovedFile(Struct, frozen=True):
    """A file of a capture that was removed."""

    path: Path
    size: int
    reason: str

    def __str__(self) -> str:
        return f"removed the capture file {self.path} ({_size(self.size)}): {self.reason}"


def remove_old(
    folder: Path, limits: Retention, own: Path | None, reserve: int, unlink: Callable[[Path], None]
) -> Iterator[RemovedFile]:
    """Remove files until `reserve` more bytes fit within the limits; yields each file that was removed.

    `own` is the part that this process writes. `unlink` removes one file.
    """
    captures = stored_captures(folder)
    total = sum(one.size for one in captures) + reserve
    oldest = time() - limits.max_age_s
    removable = [file for one in captures for file in _removable(one, own)]
    for file in sorted(removable, key=lambda file: (file.changed, file.number)):
        is_old = limits.max_age_s > 0 and file.changed < oldest
        if not is_old and not 0 < limits.max_bytes < total:
            continue
        with suppress(FileNotFoundError):
            try:
                unlink(file.path)
            except PermissionError:
                continue
        total -= file.size
        reason = "it is older than capture_keep_age" if is_old else "captures exceed capture_keep_bytes"
        yield RemovedFile(file.path, file.size, reason)


def _removable(capture: StoredCapture, own: Path | None) -> tuple[PartFile, ...]:
    """The parts of a capture that no process needs."""
    paths = [file.path for file in capture.files]
    if own in paths:
        return tuple(file for file in capture.files if file.path != own)
    return capture.files if all(map(private_files.is_unused, paths)) else ()


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"
