"""Where in the parts of a capture each line begins, and reading it back from there.

A place is one integer: the part's index in the upper bits, the byte offset in the lower. Zero means nowhere,
since every part begins with its header. Frames written at once share the place of the first of them: their
lines follow each other, one for each frame. The place of a run has the highest bit set: its first line tells
what the frames have in common, the others are the frames.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from mcpdesk.recorder.lines import run_lines

_PART_BITS = 40
_OFFSET_MASK = (1 << _PART_BITS) - 1
_RUN = 1 << 63
_FIRST_READ = 4 << 10
_LARGEST_READ = 16 << 20


def part_path(path: Path, part: int) -> Path:
    """Where part `part` (from 1) of a capture lies: `a.jsonl`, then `a.2.jsonl`, `a.3.jsonl` ..."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


class Places:
    """The places of all frames, 8 bytes each, of notes as far as there are any, and the parts they lie in."""

    def __init__(self) -> None:
        self.parts: list[Path] = []
        """Those that are on disk. What lies in a later one is nowhere yet."""
        self.gone: set[int] = set()
        """Indices of parts that were taken away while they were written: nothing is read from them."""
        self._frames = array("Q")
        self._notes = array("Q")
        self._open: tuple[int, int] | None = None
        self._group: tuple[int, int, list[bytes]] = (0, 0, [])
        """Place, first frame and lines of the group read last: neighbours are read together."""
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    def add(self, count: int, part: int, offset: int, *, is_run: bool = False) -> None:
        """Say where the lines of the next `count` frames begin; `part` counts from 0."""
        place = part << _PART_BITS | offset | is_run * _RUN
        self._frames.extend(array("Q", (place,)) * count)

    def skip_frames(self, count: int) -> None:
        """Say that the next `count` frames are nowhere."""
        self._frames.extend([0] * count)

    def set_note(self, frame: int, part: int, offset: int) -> None:
        """Say where the note on a frame is; ignored for a frame that was never placed."""
        if 0 <= frame < len(self._frames):
            if frame >= len(self._notes):
                self._notes.frombytes(bytes(8 * (len(self._frames) - len(self._notes))))
            self._notes[frame] = part << _PART_BITS | offset

    def share_note(self, noted: int, frames: Sequence[int], part: int | None = None) -> bool:
        """Say that the note on `noted` is that of others, too; False when it is nowhere, or not in `part`."""
        notes, count = self._notes, len(self._frames)
        place = notes[noted] if 0 <= noted < len(notes) else 0
        if not place or (part is not None and place >> _PART_BITS != part):
            return False
        notes.frombytes(bytes(8 * (count - len(notes))))
        for frame in frames:
            if 0 <= frame < count:
                notes[frame] = place
        return True

    def frame_line(self, number: int) -> bytes | None:
        """The line of a frame, or None when it is not on disk (any more)."""
        place = self._frames[number] if 0 <= number < len(self._frames) else 0
        with self._lock:
            if place and place == self._group[0]:
                return self._group[2][number - self._group[1]]
            start, stop = self._neighbours(number, place)
            if stop - start > 1 or place & _RUN:
                return self._grouped(number, place, start, stop)
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

    def _neighbours(self, number: int, place: int) -> tuple[int, int]:
        """The first frame of the group at a place that holds `number`, and the one after its last."""
        places = self._frames
        start = stop = number
        while place and start and places[start - 1] == place:
            start -= 1
        while place and stop < len(places) and places[stop] == place:
            stop += 1
        return start, stop

    def _grouped(self, number: int, place: int, start: int, stop: int) -> bytes | None:
        """One line of a group, which is read whole. Frames of a run have one there, too."""
        is_run = bool(place & _RUN)
        try:
            read = self._read((place & ~_RUN) >> _PART_BITS, place & _OFFSET_MASK, stop - start + is_run)
        except OSError:
            return None
        if read is None:
            return None
        found = read.split(b"\n")[:-1]
        try:
            lines = run_lines(found) if is_run else [line + b"\n" for line in found]
        except ValueError:
            return None  # the file is not what it was any more
        self._group = (place, start, lines)
        return lines[number - start]

    def read(self, number: int, start: int, count: int) -> bytes:
        """Bytes of the line of a frame, from `start` on; none when they are not on disk any more."""
        place = self._frames[number] & ~_RUN
        with self._lock:
            try:
                return os.pread(self._handle(place >> _PART_BITS), count, (place & _OFFSET_MASK) + start)
            except OSError:
                return b""

    def _read(self, part: int, offset: int, count: int = 1) -> bytes | None:
        """Whole lines at a place; None when the file ends before they do."""
        handle = self._handle(part)
        pieces, wanted, size = list[bytes](), count, _FIRST_READ * min(count, 16)
        while wanted:
            piece = os.pread(handle, size, offset)
            if not piece:
                return None
            if (found := piece.count(b"\n")) >= wanted:
                piece = b"\n".join(piece.split(b"\n", wanted)[:wanted]) + b"\n"
                found = wanted
            pieces.append(piece)
            wanted -= found
            offset += len(piece)
            size = min(4 * size, _LARGEST_READ)
        return b"".join(pieces)

    def _handle(self, part: int) -> int:
        """The open file of a part; one is kept open, since neighbours are read together."""
        if part >= len(self.parts) or part in self.gone:
            raise FileNotFoundError(errno.ENOENT, "this part was not begun, or is gone")
        if self._open is None or self._open[0] != part:
            fresh = os.open(self.parts[part], os.O_RDONLY | os.O_CLOEXEC)
            if self._open is not None:
                os.close(self._open[1])
            self._open = (part, fresh)
        return self._open[1]
