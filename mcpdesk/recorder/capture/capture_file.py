"""Append-only capture file, split into parts of a bounded size.

Callers queue lines, one at a time; a single thread writes the queue to disk. Bytes that the disk refuses stay
queued, so that the next attempt continues at the exact byte and leaves no damaged line.
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
from mcpdesk.recorder.capture.places import Places
from mcpdesk.recorder.record import CallLog, ConnectionInfo, HeldMark, RecordedRemark

_PIECES = 1_000
"""Maximum buffers per `writev`; the operating system accepts 1,024."""
Taken: TypeAlias = Sequence[bytes | Path]
"""Data to write. A path marks the beginning of the part with that name."""


class PartGone(OSError):
    """The part being written was removed, replaced or shortened by another program."""


class CaptureFile:
    """Queues lines and knows their future positions.

    Only the constructor, `write` and `close` access the disk.
    """

    def __init__(
        self, path: Path, max_bytes: int | None, started: float, most_places: int | None = None
    ) -> None:
        """Open the first part. At least the newest `most_places` frames can be read back; None means all.

        Raises: OSError.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.places = Places(most_places)
        self._max_bytes = max_bytes
        self._started = started
        self._connections: dict[int, bytes] = {}
        self._queue: list[bytes | Path] = []
        self._queued = self._under_way = self._offset = self._head = 0
        self._part = -1
        """Part that lines are queued for, from 0; the disk may be behind."""
        self.missing = 0
        """Number of frames that will never be in the file."""
        self._firsts: list[int] = []
        """First frame of each part that lines were queued for."""
        self._refused: list[bytes | memoryview | Path] = []
        """Data that the disk has not accepted yet, in order."""
        self._written = 0
        """Bytes of the current part on disk."""
        self.path, self._handle = _created(path)
        private_files.hold(self._handle)
        self.places.parts.append(self.path)
        self._begin()

    @property
    def part(self) -> Path:
        """Part that is being written on disk."""
        return self.places.parts[-1]

    @property
    def written(self) -> int:
        """Size of that part in bytes."""
        return self._written

    @property
    def waiting(self) -> int:
        """Bytes that were not passed to the operating system yet."""
        return self._queued + self._under_way

    def add_connection(self, info: ConnectionInfo) -> None:
        """Append the data of a connection. Open connections are repeated at the head of every part."""
        line = connection_line(info)
        self._put(line)
        self._connections[info.number] = line
        if info.closed is not None:
            del self._connections[info.number]

    def add_mark(self, mark: HeldMark) -> None:
        """Append the outcome of a held message."""
        self._put(mark_line(mark))

    def add_remark(self, remark: RecordedRemark) -> None:
        """Append a remark on output of a server."""
        self._put(remark_line(remark))

    def add_log(self, log: CallLog) -> None:
        """Append a log line of the code of a call."""
        self._put(log_line(log))

    def add(self, group: Group) -> None:
        """Append the lines of the next frames; start a new part if this one is full."""
        size = sum(map(len, group.pieces))
        is_full = self._max_bytes is not None and self._offset + size > self._max_bytes
        if is_full and self._offset > self._head:
            self._queue.append(part_path(self.path, self._part + 2))
            self._begin()
        self.places.add(group.count, self._part, self._offset, is_run=group.is_run)
        self._put(*group.pieces)

    def add_note(self, frame: int, line: bytes) -> None:
        """Append the line of a note on an earlier frame."""
        self.places.set_note(frame, self._part, self._offset)
        self._put(line)

    def add_same(self, noted: int, frames: Sequence[int]) -> bool:
        """Apply the note on a frame to other frames, too; False if that note is not in this part."""
        if not self.places.share_note(noted, frames, self._part):
            return False
        self._put(same_line(noted, frames))
        return True

    def add_loss(self, stop: int, why: str) -> None:
        """Append a line that the frames from the next one up to `stop` (excluded) are missing."""
        start = len(self.places)
        self.missing += stop - start
        self._put(lost_line(start, stop, why))
        self.places.skip_frames(stop - start)

    def take(self) -> Taken:
        """Remove and return the queue, to be written next."""
        taken, self._queue = self._queue, []
        self._queued, self._under_way = 0, self._under_way + self._queued
        return taken

    def write(self, taken: Taken) -> None:
        """Pass all data to the operating system, so that it survives the death of this process.

        Refused data are kept and written first by the next call.
        Raises: OSError; PartGone if `begin_again` must be called first.
        """
        self._refused += taken
        while (refused := self._refused) and self._is_in_place():
            if isinstance(refused[0], Path):
                self._open_part(refused[0])
                del refused[0]
            else:
                self._write_lines()
        self._under_way = 0

    def begin_again(self, why: str) -> Path:
        """Continue in a further part and return its path, because the part on disk is lost.

        Queued lines are dropped, since their positions were in that part. The caller must prevent concurrent
        queueing.
        """
        places = self.places
        gone = len(places.parts) - 1
        places.parts += [part_path(self.path, part + 1) for part in range(gone + 1, self._part + 1)]
        places.gone.update(range(gone, self._part + 1))
        self._refused.clear()
        self._queued = self._under_way = 0
        further = part_path(self.path, self._part + 2)
        self._queue = [further]
        self._begin()
        start, stop = self._firsts[gone], len(places)
        if start < stop:
            self.missing += stop - start
            self._put(lost_line(start, stop, why))
        return further

    def remove(self, path: Path) -> None:
        """Remove a file; if it is an earlier part of this capture, its frames are no longer read.

        Raises: OSError.
        """
        path.unlink()
        places = self.places
        if path in places.parts[:-1]:
            places.lose(places.parts.index(path))
            while (part := bisect_right(self._firsts, places.removed) - 1) in places.gone:
                places.removed = self._firsts[part + 1]
            places.drop(places.removed)

    def close(self) -> None:
        """Write the queue and close the file. Reading back still works afterwards. Raises: OSError."""
        try:
            self.write(self.take())
        finally:
            os.close(self._handle)
            self.places.close()

    def _begin(self) -> None:
        """Queue the head of the next part."""
        self._part += 1
        self._firsts.append(len(self.places))
        self._offset = 0
        self._put(header_line(self._part + 1, len(self.places), self._started))
        self._put(*self._connections.values())
        self._head = self._offset

    def _put(self, *pieces: bytes) -> None:
        size = sum(map(len, pieces))
        self._queue += pieces
        self._offset += size
        self._queued += size

    def _is_in_place(self) -> bool:
        """Check that the next line is written at its expected position; always True.

        Raises: PartGone; OSError.
        """
        if isinstance(self._refused[0], Path):
            return True
        ours, path = os.fstat(self._handle), self.places.parts[-1]
        try:
            there = os.stat(path)
        except FileNotFoundError:
            raise PartGone(f"{path.name} was removed") from None
        if (there.st_ino, there.st_dev) != (ours.st_ino, ours.st_dev):
            raise PartGone(f"{path.name} was replaced")
        if ours.st_size < self._written:
            raise PartGone(f"{path.name} was cut short")
        if ours.st_size > self._written:
            # A failed attempt may have left something behind.
            os.ftruncate(self._handle, self._written)
        return True

    def _open_part(self, path: Path) -> None:
        """Create the next part on disk."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done, self._handle = self._handle, private_files.create(path)
        private_files.hold(self._handle)
        os.close(done)
        self._written = 0
        # Only now, because before a file of that name belonged to another program.
        self.places.parts.append(path)

    def _write_lines(self) -> None:
        """Write the refused data up to the next part, as far as the disk accepts it."""
        refused = self._refused
        end = next((at for at, piece in enumerate(refused) if isinstance(piece, Path)), len(refused))
        lines = [piece for piece in refused[:end] if not isinstance(piece, Path)]
        try:
            while lines:
                # Passed as separate buffers, because joining would copy every byte once more.
                written, whole = os.writev(self._handle, lines[:_PIECES]), 0
                self._written += written
                while whole < len(lines) and written >= len(lines[whole]):
                    written -= len(lines[whole])
                    whole += 1
                del lines[:whole]
                if written:
                    lines[0] = memoryview(lines[0])[written:]
        finally:
            refused[:end] = lines
            self._under_way = sum(len(piece) for piece in refused if not isinstance(piece, Path))


def _created(path: Path) -> tuple[Path, int]:
    """Create the first part under a name that no other capture has."""
    attempt = path
    for number in range(1, 1000):
        try:
            return attempt, private_files.create(attempt)
        except FileExistsError:
            attempt = path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
    raise FileExistsError(f"too many captures are called {path.name}")
