"""Removal of old captures: files not written to for long, then the oldest until a size limit is met.

A capture that another living process writes is left alone with all its parts, because that process applies
the same limits to it. Of the capture of this process every part may be removed except the one being written.
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
"""Maximum size of a part as a fraction (1/8) of the size limit, so that little is removed at a time."""
_LEAST_PART = 64 << 10


class Retention(Struct, frozen=True):
    """Limits on all captures in one folder."""

    max_bytes: int = 0
    """Maximum size of all captures in bytes; 0 for no limit."""
    max_age_s: float = 0.0
    """Maximum seconds since the last write to a file; 0 for no limit."""

    def part_bytes(self, max_file_bytes: int) -> int:
        """Return the maximum size of one part; `max_file_bytes` is a further limit. 0 means no limit."""
        share = max(_LEAST_PART, self.max_bytes // _SHARE) if self.max_bytes else 0
        return min(filter(None, (share, max_file_bytes)), default=0)

    @property
    def is_on(self) -> bool:
        """True if there is any limit."""
        return bool(self.max_bytes or self.max_age_s)


UNLIMITED = Retention()


class RemovedFile(Struct, frozen=True):
    """A capture file that was removed."""

    path: Path
    size: int
    reason: str

    def __str__(self) -> str:
        from mcpdesk.byte_size import size_text  # not needed before the first answer

        return f"removed the capture file {self.path} ({size_text(self.size)}): {self.reason}"


def remove_old(
    folder: Path, limits: Retention, own: Path | None, reserve: int, unlink: Callable[[Path], None]
) -> Iterator[RemovedFile]:
    """Remove files until `reserve` more bytes fit within the limits; yield each removed file.

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
    """Return the parts of a capture that no process needs."""
    paths = [file.path for file in capture.files]
    if own in paths:
        return tuple(file for file in capture.files if file.path != own)
    return capture.files if all(map(private_files.is_unused, paths)) else ()
