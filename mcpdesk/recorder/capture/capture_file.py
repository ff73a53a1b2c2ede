"""Append-only capture file, split into parts of limited size.

Callers queue lines, one caller at a time. A single thread writes the queue to disk. If the disk does not
accept all bytes, the others stay in the queue. The next attempt continues with exactly the next byte, so no
line is damaged.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from mcpdesk import private_files
from mcpdesk.recorder.capture.capture_lines import (
    Group,
    connection_line,
    header_line,
    log_line,
    lost_line,
    mark_line,
    remark_line,
    same_line,
)
from mcpdesk.recorder.capture.capture_parts import part_path
from mcpdesk.recorder.capture.line_positions import LinePositions
from mcpdesk.recorder.record import CallLog, ConnectionInfo, HeldMark, RecordedRemark

_MAX_BUFFERS = 1_000
"""Maximum number of buffers for one `writev`. The operating system accepts 1,024."""
QueuedData: TypeAlias = Sequence[bytes | Path]
"""Data to write, in order. A path comes before the data of each new part, and names its file."""


class PartUnavailable(OSError):
    """Another program removed, replaced or shortened the part that is being written."""


class CaptureFile:
    """Queue of lines that knows where each line will be in the file.

    Only the constructor, `write` and `close` access the disk.
    """

    def __init__(
        self, path: Path, max_bytes: int | None, started: float, max_positions: int | None = None
    ) -> None:
        """Open the first part.

        Keep the positions of at least the newest `max_positions` frames, so that these frames can be read
        back. None keeps all. Raises: OSError.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.positions = LinePositions(max_positions)
        self._max_bytes = max_bytes
        self._started = started
        self._connections: dict[int, bytes] = {}
        """Lines of the open connections, by number."""
        self._queue: list[bytes | Path] = []
        """Data for `drain`, in order."""
        self._queued_bytes = 0
        """Size in bytes of the data in `_queue`."""
        self._drained_bytes = 0
        """Size in bytes of the data that were taken from the queue and are not on disk yet."""
        self._queued_part = -1
        """Index of the part for which lines are queued, from 0.

        The part that is written on disk may be an earlier one.
        """
        self._offset = 0
        """Size in bytes of this part, with the queued lines."""
        self._header_bytes = 0
        """Size in bytes of the lines that were queued when this part began."""
        self.missing = 0
        """Number of frames that will never be in the file."""
        self._first_frames: list[int] = []
        """Number of the first frame of each part."""
        self._unwritten: list[bytes | memoryview | Path] = []
        """Data that the disk has not accepted yet, in order."""
        self._written = 0
        """Number of bytes of the current part that are on disk."""
        self.path, self._handle = _create_first_part(path)
        private_files.hold(self._handle)
        self.positions.parts.append(self.path)
        self._begin_part()

    @property
    def part(self) -> Path:
        """Path of the part that is written on disk at present."""
        return self.positions.parts[-1]

    @property
    def written(self) -> int:
        """Size in bytes of the part that is written on disk at present."""
        return self._written

    @property
    def waiting(self) -> int:
        """Number of bytes that are not passed to the operating system yet."""
        return self._queued_bytes + self._drained_bytes

    def add_connection(self, info: ConnectionInfo) -> None:
        """Append the data of a connection. Every part begins with the data of the open connections."""
        line = connection_line(info)
        self._enqueue(line)
        self._connections[info.number] = line
        if info.closed is not None:
            del self._connections[info.number]

    def add_mark(self, mark: HeldMark) -> None:
        """Append a decision about a held message."""
        self._enqueue(mark_line(mark))

    def add_remark(self, remark: RecordedRemark) -> None:
        """Append a remark on a message of a server."""
        self._enqueue(remark_line(remark))

    def add_log(self, log: CallLog) -> None:
        """Append a log line of a call."""
        self._enqueue(log_line(log))

    def add(self, group: Group) -> None:
        """Append the lines of the next frames. If the part is full, start a new one."""
        size = sum(map(len, group.pieces))
        is_full = self._max_bytes is not None and self._offset + size > self._max_bytes
        if is_full and self._offset > self._header_bytes:
            self._queue.append(self._next_path())
            self._begin_part()
        self.positions.add(group.count, self._queued_part, self._offset, is_run=group.is_run)
        self._enqueue(*group.pieces)

    def add_note(self, frame: int, line: bytes) -> None:
        """Append the line with the HTTP metadata of an earlier frame."""
        self.positions.set_note(frame, self._queued_part, self._offset)
        self._enqueue(line)

    def add_same(self, note_frame: int, frames: Sequence[int]) -> bool:
        """Append a line that gives the HTTP metadata of frame `note_frame` to other frames.

        Return False if this metadata is not in the current part.
        """
        if not self.positions.share_note(note_frame, frames, self._queued_part):
            return False
        self._enqueue(same_line(note_frame, frames))
        return True

    def add_loss(self, stop: int, reason: str) -> None:
        """Append a line that reports missing frames, from the next one up to `stop` (excluded)."""
        start = len(self.positions)
        self.missing += stop - start
        self._enqueue(lost_line(start, stop, reason))
        self.positions.skip_frames(stop - start)

    def drain(self) -> QueuedData:
        """Empty the queue and return its data, which the caller passes to `write`."""
        queue, self._queue = self._queue, []
        self._drained_bytes += self._queued_bytes
        self._queued_bytes = 0
        return queue

    def write(self, queue: QueuedData) -> None:
        """Pass all data to the operating system, so that they survive the end of this process.

        Refused data are kept and written first by the next call. Raises: OSError; PartUnavailable if
        `restart_in_new_part` must be called first.
        """
        self._unwritten += queue
        while unwritten := self._unwritten:
            if isinstance(unwritten[0], Path):
                self._open_part(unwritten[0])
                del unwritten[0]
            else:
                self._check_position()
                self._write_lines()
        self._drained_bytes = 0

    def restart_in_new_part(self, reason: str) -> Path:
        """Continue in a new part and return its path, because the current part on disk is lost.

        Queued lines are dropped, because their positions were in that part or in later ones. The caller must
        prevent other threads from adding lines.
        """
        positions = self.positions
        lost_part = len(positions.parts) - 1
        positions.parts += [
            part_path(self.path, part + 1) for part in range(lost_part + 1, self._queued_part + 1)
        ]
        positions.unreadable_parts.update(range(lost_part, self._queued_part + 1))
        self._unwritten.clear()
        self._queued_bytes = self._drained_bytes = 0
        new_path = self._next_path()
        self._queue = [new_path]
        self._begin_part()
        start, stop = self._first_frames[lost_part], len(positions)
        if start < stop:
            self.missing += stop - start
            self._enqueue(lost_line(start, stop, reason))
        return new_path

    def remove(self, path: Path) -> None:
        """Remove a file. If it is an earlier part of this capture, its frames can no longer be read.

        Raises: OSError.
        """
        path.unlink()
        positions = self.positions
        if path in positions.parts[:-1]:
            positions.stop_reading_part(positions.parts.index(path))
            # Frames count as removed up to the first part that can still be read.
            while (
                part := bisect_right(self._first_frames, positions.removed) - 1
            ) in positions.unreadable_parts:
                positions.removed = self._first_frames[part + 1]
            positions.drop(positions.removed)

    def close(self) -> None:
        """Write the queue and close the file. The frames can still be read back. Raises: OSError."""
        try:
            self.write(self.drain())
        finally:
            os.close(self._handle)
            self.positions.close()

    def _next_path(self) -> Path:
        """Return the path of the part after the queued one. Its number is its index + 1."""
        return part_path(self.path, self._queued_part + 2)

    def _begin_part(self) -> None:
        """Queue the beginning of the next part."""
        self._queued_part += 1
        self._first_frames.append(len(self.positions))
        self._offset = 0
        self._enqueue(header_line(self._queued_part + 1, len(self.positions), self._started))
        self._enqueue(*self._connections.values())
        self._header_bytes = self._offset

    def _enqueue(self, *pieces: bytes) -> None:
        """Append lines to the queue."""
        size = sum(map(len, pieces))
        self._queue += pieces
        self._offset += size
        self._queued_bytes += size

    def _check_position(self) -> None:
        """Check that the part on disk is unchanged, and remove incomplete data at its end.

        Raises: PartUnavailable; OSError.
        """
        handle_status = os.fstat(self._handle)
        path = self.positions.parts[-1]
        try:
            path_status = os.stat(path)
        except FileNotFoundError:
            raise PartUnavailable(f"{path.name} was removed") from None
        if (path_status.st_ino, path_status.st_dev) != (handle_status.st_ino, handle_status.st_dev):
            raise PartUnavailable(f"{path.name} was replaced")
        if handle_status.st_size < self._written:
            raise PartUnavailable(f"{path.name} was cut short")
        if handle_status.st_size > self._written:
            # A failed attempt may have left incomplete data.
            os.ftruncate(self._handle, self._written)

    def _open_part(self, path: Path) -> None:
        """Create the next part on disk."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        old_handle, self._handle = self._handle, private_files.create(path)
        private_files.hold(self._handle)
        os.close(old_handle)
        self._written = 0
        # Added only now: until the file is created, a file with this name may belong to another program.
        self.positions.parts.append(path)

    def _write_lines(self) -> None:
        """Write the data that come before the next part. Raises: OSError if the disk refuses some of them."""
        unwritten = self._unwritten
        end = next(
            (index for index, piece in enumerate(unwritten) if isinstance(piece, Path)), len(unwritten)
        )
        lines = [piece for piece in unwritten[:end] if not isinstance(piece, Path)]
        try:
            while lines:
                # Separate buffers, because joining them would copy every byte.
                written_bytes = os.writev(self._handle, lines[:_MAX_BUFFERS])
                self._written += written_bytes
                complete_lines = 0
                while complete_lines < len(lines) and written_bytes >= len(lines[complete_lines]):
                    written_bytes -= len(lines[complete_lines])
                    complete_lines += 1
                del lines[:complete_lines]
                if written_bytes:
                    lines[0] = memoryview(lines[0])[written_bytes:]
        finally:
            unwritten[:end] = lines
            self._drained_bytes = sum(len(piece) for piece in unwritten if not isinstance(piece, Path))


def _create_first_part(path: Path) -> tuple[Path, int]:
    """Create the first part, and return its path and its open file.

    If a file with this name exists, a number is added to the name. Raises: OSError.
    """
    attempt = path
    for number in range(1, 1000):
        try:
            return attempt, private_files.create(attempt)
        except FileExistsError:
            attempt = path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
    raise FileExistsError(f"too many captures are called {path.name}")
