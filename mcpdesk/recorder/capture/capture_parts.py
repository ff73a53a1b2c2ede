"""Names of the files (parts) of a capture, and search for the captures in a folder."""

from __future__ import annotations

import re
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import NamedTuple

from mcpdesk.recorder.capture.capture_lines import read_line

_HEADER_BYTES = 4_096
"""Maximum size in bytes of the first line of a part."""
_PART_NAME = re.compile(r"(?P<stem>.+)\.(?P<number>[1-9]\d{0,6})\.jsonl")
"""Name of a later part, with the name of the first part and the part number."""


class PartFile(NamedTuple):
    """One file of a capture."""

    path: Path
    number: int
    """Number of the part, from 1."""
    size: int
    """Size in bytes."""
    changed: float
    """Unix time in seconds of the last write."""


class StoredCapture(NamedTuple):
    """A capture on disk with the parts that still exist."""

    files: tuple[PartFile, ...]
    """Parts in ascending order. The oldest parts may be missing."""

    @property
    def path(self) -> Path:
        """Path of the first existing part. `mcpdesk open` accepts it."""
        return self.files[0].path

    @property
    def size(self) -> int:
        """Total size of the existing parts in bytes."""
        return sum(file.size for file in self.files)

    @property
    def changed(self) -> float:
        """Unix time in seconds of the last write."""
        return max(file.changed for file in self.files)


def part_path(path: Path, part: int) -> Path:
    """Return the path of part `part` of a capture: `a.jsonl`, then `a.2.jsonl`, `a.3.jsonl` and so on."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


def part_of(path: Path) -> tuple[Path, int]:
    """Return the path of the first part of a capture, and the part number of `path`.

    A name such as `a.2.jsonl` is not enough. The first line of the file must also state this number. If the
    file states no number, part 1 must exist.
    """
    match = _PART_NAME.fullmatch(path.name)
    if match is None:
        return path, 1
    first = path.with_name(f"{match['stem']}.jsonl")
    number = int(match["number"])
    stated_number = _stated_number(path)
    is_later_part = stated_number == number or (not stated_number and first.exists())
    return (first, number) if is_later_part else (path, 1)


def next_part(path: Path, number: int) -> tuple[Path, int] | None:
    """Return path and number of the next existing part after `number`, or None if no later part exists.

    `path` is the path of the first part.
    """
    next_path = part_path(path, number + 1)
    if next_path.is_file():
        return next_path, number + 1
    later_parts: list[tuple[int, Path]] = []
    for candidate in path.parent.glob(f"{escape(path.stem)}.*{path.suffix}"):
        first, candidate_number = part_of(candidate)
        if first == path and candidate_number > number:
            later_parts.append((candidate_number, candidate))
    if not later_parts:
        return None
    part_number, part = min(later_parts)
    return part, part_number


def existing_part(path: Path) -> Path:
    """Return `path`, or if this file was removed, the path of the next part that exists.

    If no later part exists, return `path`.
    """
    if path.exists():
        return path
    match = _PART_NAME.fullmatch(path.name)
    later_part = next_part(path, 1)
    if later_part is None and match is not None:
        later_part = next_part(path.with_name(f"{match['stem']}.jsonl"), int(match["number"]))
    return path if later_part is None else later_part[0]


def _stated_number(path: Path) -> int:
    """Return the part number in the first line of a file. 0 if the file is not a capture."""
    try:
        with path.open("rb") as file:
            line = read_line(file.readline(_HEADER_BYTES))
    except (OSError, ValueError):
        return 0
    return line.part if line.capture is not None else 0


def stored_captures(folder: Path) -> list[StoredCapture]:
    """Return the captures in a folder, the one written last first."""
    files_by_capture: dict[Path, list[PartFile]] = {}
    for path in folder.glob("*.jsonl"):
        with suppress(FileNotFoundError):  # another process may remove old captures
            status = path.stat()
            first, number = part_of(path)
            file = PartFile(path, number, status.st_size, status.st_mtime)
            files_by_capture.setdefault(first, []).append(file)
    captures = [
        StoredCapture(tuple(sorted(files, key=lambda file: file.number)))
        for files in files_by_capture.values()
    ]
    return sorted(captures, key=lambda capture: capture.changed, reverse=True)
