"""Removal of old captures.

First, files that were not written for a long time are removed. Then the oldest files are removed until the
total size is below a limit. A capture that another running process writes is not touched, because that
process applies the same limits. Of the capture of this process, all parts except the current one may be
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import time

from msgspec import Struct

from mcpdesk import private_files
from mcpdesk.recorder.capture.capture_parts import PartFile, StoredCapture, stored_captures

_PART_DIVISOR = 8
"""A part has at most 1/_PART_DIVISOR of the size limit, because captures are removed part by part."""
_MIN_PART_BYTES = 64 << 10
"""Smallest maximum size of a part, even if the limit for all captures is small."""


class Retention(Struct, frozen=True):
    """Limits for all captures in one folder."""

    max_bytes: int = 0
    """Maximum total size in bytes. 0 means no limit."""
    max_age_s: float = 0.0
    """Maximum number of seconds since the last write to a file. 0 means no limit."""

    def part_bytes(self, max_file_bytes: int) -> int:
        """Return the maximum size of one part in bytes: `max_file_bytes` or less. 0 means no limit."""
        max_part_bytes = max(_MIN_PART_BYTES, self.max_bytes // _PART_DIVISOR) if self.max_bytes else 0
        return min(filter(None, (max_part_bytes, max_file_bytes)), default=0)

    @property
    def is_on(self) -> bool:
        """True if any limit is set."""
        return bool(self.max_bytes or self.max_age_s)


UNLIMITED = Retention()


class RemovedFile(Struct, frozen=True):
    """Capture file that was removed."""

    path: Path
    size: int
    """Size in bytes."""
    reason: str

    def __str__(self) -> str:
        from mcpdesk.byte_size import size_text  # not needed at the start

        return f"removed the capture file {self.path} ({size_text(self.size)}): {self.reason}"


def remove_old(
    folder: Path, limits: Retention, own_part: Path | None, reserve_bytes: int, unlink: Callable[[Path], None]
) -> Iterator[RemovedFile]:
    """Remove files until `reserve_bytes` more bytes fit within the limits, and yield each removed file.

    `own_part` is the part that this process writes. `unlink` removes one file.
    """
    captures = stored_captures(folder)
    total_bytes = sum(capture.size for capture in captures) + reserve_bytes
    oldest_time = time() - limits.max_age_s
    removable = [file for capture in captures for file in _removable_files(capture, own_part)]
    for file in sorted(removable, key=lambda file: (file.changed, file.number)):
        is_old = limits.max_age_s > 0 and file.changed < oldest_time
        is_too_much = 0 < limits.max_bytes < total_bytes
        if not is_old and not is_too_much:
            continue
        try:
            unlink(file.path)
        except FileNotFoundError:
            pass  # another process removed it
        except PermissionError:
            continue
        total_bytes -= file.size
        reason = "it is older than capture_keep_age" if is_old else "captures exceed capture_keep_bytes"
        yield RemovedFile(file.path, file.size, reason)


def _removable_files(capture: StoredCapture, own_part: Path | None) -> tuple[PartFile, ...]:
    """Return the parts of a capture that may be removed."""
    paths = [file.path for file in capture.files]
    if own_part in paths:
        return tuple(file for file in capture.files if file.path != own_part)
    return capture.files if all(map(private_files.is_unused, paths)) else ()
