"""Where in the parts of a capture each line begins, and reading it back from there.

A place is one integer: the part's index in the upper bits, the byte offset in the lower. Zero means nowhere,
since every part begins with its header.
"""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from threading import Lock

_PART_BITS = 40
_OFFSET_MASK = (1 << _PART_BITS) - 1
_FIRST_READ = 4 << 10


def part_path(path: Path, part: int) -> Path:
    """Where part `part` (from 1) of a capture lies: `a.jsonl`, then `a.2.jsonl`, `a.3.jsonl` ..."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


class Places:
    """The places of all frames and notes, 16 bytes a frame, and the parts they lie in."""

    def __init__(self) -> None:
        self.parts: list[Path] = []
        self._frames = array("Q")
        self._notes = array("Q")
        self._open: tuple[int, int] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    def add_frame(self, part: int, offset: int) -> None:
        """Say where the next frame's line is; `part` counts from 0."""
        self._frames.append(part << _PART_BITS | offset)
        self._notes.append(0)

    def skip_frames(self, count: int) -> None:
        """Say that the next `count` frames are nowhere."""
        self._frames.extend([0] * count)
        self._notes.extend([0] * count)

    def set_note(self, frame: int, part: int, offset: int) -> None:
        """Say where the note on a frame is; ignored for a frame that was never placed."""
        if 0 <= frame < len(self._notes):
            self._notes[frame] = part << _PART_BITS | offset

    def frame_line(self, number: int) -> bytes | None:
        """The line of a frame, or None when it is not on disk (any more)."""
        return self._line(self._frames, number)

    def note_line(self, number: int) -> bytes | None:
        """The line of the note on a frame, or None."""
        return self._line(self._notes, number)

    def close(self) -> None:
        """Let go of the open file; a later look opens it again."""
        with self._lock:
            if self._open is not None:
                os.close(self._open[1])
            self._open = None

    def _line(self, places: array[int], number: int) -> bytes | None:
        place = places[number] if 0 <= number < len(places) else 0
        if not place:
            return None
        with self._lock:
            try:
                return self._read(place >> _PART_BITS, place & _OFFSET_MASK)
            except OSError:
                return None

    def _read(self, part: int, offset: int) -> bytes | None:
        """One whole line at a place; None when the file ends before the line does."""
        handle = self._handle(part)
        line, size = b"", _FIRST_READ
        while not line.endswith(b"\n"):
            piece = os.pread(handle, size, offset + len(line))
            if not piece:
                return None
            end = piece.find(b"\n")
            line += piece if end < 0 else piece[: end + 1]
            size *= 4
        return line

    def _handle(self, part: int) -> int:
        """The open file of a part; one is kept open, since neighbours are read together."""
        if self._open is None or self._open[0] != part:
            fresh = os.open(self.parts[part], os.O_RDONLY | os.O_CLOEXEC)
            if self._open is not None:
                os.close(self._open[1])
            self._open = (part, fresh)
        return self._open[1]
