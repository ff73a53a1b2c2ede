"""Positions of frames and HTTP metadata in the parts of a capture."""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock

from mcpdesk.portable_files import OPEN_FLAGS, read_at
from mcpdesk.recorder.capture.capture_lines import run_lines

_OFFSET_BITS = 40
"""Number of low bits of a position that contain the offset in the part. Higher bits have the part's index."""
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_RUN = 1 << 63
"""Bit of a position that is set if the line at the position is the header of a run.

A run is a group of frames that were recorded together. One header line comes before their lines.
"""
_FIRST_READ_BYTES = 4 << 10
"""Number of bytes that are read first for one line. Each further read is four times as large."""
_MAX_READ_BYTES = 16 << 20
"""Maximum number of bytes of one read."""
_MAX_SPAN_BYTES = 1 << 20
"""Maximum distance in bytes between the first and the last of the frames that are read together."""


_DROP_DIVISOR = 4
"""Positions are dropped when their number exceeds the limit by 1/_DROP_DIVISOR.

They are not dropped earlier, because dropping copies the remaining positions.
"""


class LinePositions:
    """Positions of lines with frames and HTTP metadata (notes). Each frame needs 8 bytes.

    Successive frames with the same position are a *group*: the position is that of the group's first line.

    One thread adds and drops positions; any thread may read.
    """

    def __init__(self, max_frames: int | None = None) -> None:
        """Keep at least the newest `max_frames` frames, and up to a quarter more. None keeps all."""
        self.parts: list[Path] = []
        """Parts on disk. Lines of a later part are still queued and cannot be read."""
        self.unreadable_parts: set[int] = set()
        """Indices of parts that were removed or replaced. They are not read."""
        self.removed = 0
        """Number of frames at the beginning whose parts were removed to free space."""
        self._max_frames = max_frames
        self._frames = _Positions(0, array("Q"))
        self._notes = _Positions(0, array("Q"))
        self._open_file: tuple[int, int] | None = None
        """Index of the part that was read last, and its file descriptor."""
        self._cached_group: tuple[int, int, list[bytes]] = (0, 0, [])
        """Group of lines that was read last: its position, first frame and lines.

        The group is kept because neighbouring frames are often read next.
        """
        self._lock = Lock()

    def __len__(self) -> int:
        """Number of frames added so far, including dropped ones."""
        return len(self._frames)

    @property
    def first(self) -> int:
        """Number of the oldest frame whose position is known."""
        return self._frames.base

    def add(self, count: int, part: int, offset: int, *, is_run: bool = False) -> None:
        """Set the position of the lines of the next `count` frames. `part` counts from 0."""
        position = part << _OFFSET_BITS | offset | is_run * _RUN
        self._frames.values.extend(array("Q", (position,)) * count)
        if (
            self._max_frames is not None
            and len(self._frames.values) > self._max_frames + self._max_frames // _DROP_DIVISOR
        ):
            self.drop(len(self._frames) - self._max_frames)

    def skip_frames(self, count: int) -> None:
        """Record that the next `count` frames are not in the file."""
        self._frames.values.frombytes(bytes(8 * count))

    def drop(self, first: int) -> None:
        """Drop the positions of frames before `first`, except those in the same group as `first`."""
        frames = self._frames
        while first > frames.base and frames.at(first - 1) == frames.at(first) != 0:
            first -= 1  # the lines of a group are counted from its beginning
        if first > frames.base:
            # New objects, so that a thread that reads the old ones sees consistent data.
            self._frames = self._frames.since(first)
            self._notes = self._notes.since(first)

    def set_note(self, frame: int, part: int, offset: int) -> None:
        """Set the position of a frame's note. Ignored if the frame is not known."""
        if self._frames.base <= frame < len(self._frames):
            self._notes.fill(frame + 1)
            self._notes.put(frame, part << _OFFSET_BITS | offset)

    def share_note(self, note_frame: int, frames: Sequence[int], part: int | None = None) -> bool:
        """Use the note of frame `note_frame` for other frames.

        Return False if this note is not in the file, or not in part `part`.
        """
        notes, count = self._notes, len(self._frames)
        position = notes.at(note_frame)
        if not position or (part is not None and position >> _OFFSET_BITS != part):
            return False
        notes.fill(count)
        for frame in frames:
            if notes.base <= frame < count:
                notes.put(frame, position)
        return True

    def frame_line(self, number: int) -> bytes | None:
        """Read the line of a frame. None if it is not on disk."""
        position = self._frames.at(number)
        if not position:
            return None
        with self._lock:
            cached_position, start, lines = self._cached_group
            if position != cached_position:
                try:
                    start, lines = self._read_group(number, position)
                except (OSError, ValueError):
                    return None
                if len(lines) > 1:
                    self._cached_group = (position, start, lines)
            return lines[number - start]

    def frame_lines(self, start: int, stop: int) -> list[bytes | None]:
        """Read the lines of successive frames. None for those that are not on disk."""
        frames = self._frames
        numbers = range(start, min(stop, len(frames)))
        positions = frames.values[max(0, start - frames.base) : max(0, numbers.stop - frames.base)]
        are_close = len(positions) > 2 and (
            0 < positions[0] < positions[-1] < min(positions[0] + _MAX_SPAN_BYTES, _RUN)
        )
        if start < frames.base or not are_close:
            return [self.frame_line(number) for number in numbers]
        first_position = positions[0]
        lines: list[bytes | None] = []
        with self._lock:
            try:
                handle = self._handle(first_position >> _OFFSET_BITS)
                data = read_at(handle, positions[-1] - first_position, first_position & _OFFSET_MASK)
                for position, next_position in pairwise(positions):
                    if not first_position <= position < next_position:
                        raise ValueError("frames that do not follow each other")
                    # Lines of other kinds may come between two frames.
                    start_offset = position - first_position
                    lines.append(data[start_offset : data.index(b"\n", start_offset) + 1])
            except (OSError, ValueError):
                lines.clear()
        # The last frame, and after an error all frames, are read one by one.
        return lines + [self.frame_line(number) for number in numbers[len(lines) :]]

    def piece(self, start: int, stop: int) -> bytes | None:
        """Read the bytes of the file from the line of frame `start` up to the line of frame `stop`.

        None if these lines are not close together in the same part.
        """
        frames = self._frames
        first_position, end_position = frames.at(start), frames.at(stop)
        max_position = min(first_position + _MAX_SPAN_BYTES, _RUN)
        if start >= stop or not 0 < first_position < end_position < max_position:
            return None
        with self._lock:
            try:
                handle = self._handle(first_position >> _OFFSET_BITS)
                return read_at(handle, end_position - first_position, first_position & _OFFSET_MASK)
            except OSError:
                return None

    def note_line(self, number: int) -> bytes | None:
        """Read the line with the note of a frame. None if the frame has no note."""
        position = self._notes.at(number)
        if not position:
            return None
        with self._lock:
            try:
                return self._read(position >> _OFFSET_BITS, position & _OFFSET_MASK, 1)
            except (OSError, ValueError):
                return None

    def stop_reading_part(self, part: int) -> None:
        """Stop reading a part that was removed, and close its file so that the disk space is freed."""
        with self._lock:
            self.unreadable_parts.add(part)
            if self._open_file is not None and self._open_file[0] == part:
                os.close(self._open_file[1])
                self._open_file = None

    def close(self) -> None:
        """Close the open file. The next read opens it again."""
        with self._lock:
            if self._open_file is not None:
                os.close(self._open_file[1])
            self._open_file = None

    def _read_group(self, number: int, position: int) -> tuple[int, list[bytes]]:
        """Return the first frame and the lines of the group that contains frame `number`.

        A run is expanded to one line for each frame. Raises: OSError; ValueError if the file has changed.
        """
        frames = self._frames
        start = stop = number
        while frames.at(start - 1) == position:
            start -= 1
        while frames.at(stop) == position:
            stop += 1
        is_run = bool(position & _RUN)
        line_position = position & ~_RUN
        part, offset = line_position >> _OFFSET_BITS, line_position & _OFFSET_MASK
        data = self._read(part, offset, stop - start + is_run)
        if stop - start == 1 and not is_run:
            return start, [data]
        lines = data.split(b"\n")[:-1]
        return start, run_lines(lines) if is_run else [line + b"\n" for line in lines]

    def read(self, number: int, start: int, count: int) -> bytes:
        """Read bytes of the line of a frame, from offset `start`. Empty if they are not on disk."""
        position = self._frames.at(number) & ~_RUN
        with self._lock:
            try:
                return read_at(
                    self._handle(position >> _OFFSET_BITS), count, (position & _OFFSET_MASK) + start
                )
            except OSError:
                return b""

    def _read(self, part: int, offset: int, count: int) -> bytes:
        """Read `count` complete lines, the first at `offset`.

        Raises: OSError; ValueError if the file is too short.
        """
        handle = self._handle(part)
        pieces: list[bytes] = []
        missing_lines = count
        size = _FIRST_READ_BYTES * min(count, 16)
        while missing_lines:
            piece = read_at(handle, size, offset)
            if not piece:
                raise ValueError("the file ends within a line")
            if (newlines := piece.count(b"\n")) >= missing_lines:
                piece = b"\n".join(piece.split(b"\n", missing_lines)[:missing_lines]) + b"\n"
                newlines = missing_lines
            pieces.append(piece)
            missing_lines -= newlines
            offset += len(piece)
            size = min(4 * size, _MAX_READ_BYTES)
        return b"".join(pieces)

    def _handle(self, part: int) -> int:
        """Return the file descriptor of a part. The caller holds the lock. Raises: OSError.

        The file stays open until another part is read, because neighbouring frames are often read next.
        """
        if part >= len(self.parts) or part in self.unreadable_parts:
            raise FileNotFoundError(errno.ENOENT, "this part was not started, or was removed")
        if self._open_file is None or self._open_file[0] != part:
            new_handle = os.open(self.parts[part], os.O_RDONLY | OPEN_FLAGS)
            if self._open_file is not None:
                os.close(self._open_file[1])
            self._open_file = (part, new_handle)
        return self._open_file[1]


class _Positions:
    """Positions by frame number. The oldest positions can be dropped."""

    __slots__ = ("base", "values")

    def __init__(self, base: int, values: array[int]) -> None:
        self.base = base
        """Number of the frame to which the first value belongs. It never changes."""
        self.values = values

    def __len__(self) -> int:
        return self.base + len(self.values)

    def at(self, frame: int) -> int:
        """Return the position of a frame. 0 if it is unknown."""
        index = frame - self.base
        return self.values[index] if 0 <= index < len(self.values) else 0

    def put(self, frame: int, position: int) -> None:
        """Set the position of a known frame."""
        self.values[frame - self.base] = position

    def fill(self, stop: int) -> None:
        """Append unknown positions for the frames before `stop`."""
        if (missing_count := stop - len(self)) > 0:
            self.values.frombytes(bytes(8 * missing_count))

    def since(self, first: int) -> _Positions:
        """Return the positions of the frames from `first` on."""
        return _Positions(first, self.values[first - self.base :])
