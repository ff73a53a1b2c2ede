"""The append-only file a recording is written to, in parts of a bounded size.

Lines are queued by whoever has them, one at a time; one thread takes what is queued to the disk. What the
disk refuses stays queued, from the very byte it stopped at, so that a later attempt leaves no damaged line.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from mcpdesk import private_files
from mcpdesk.recorder.capture.capture_lines import (
    Group,
    connection_line,
    header_line,
    log_line,
    lost_line,
    mark_line,
    run_lines,
    same_line,
)
from mcpdesk.recorder.record import CallLog, ConnectionInfo, HeldMark

_PIECES = 1_000
"""Handed over at once; the operating system takes 1,024."""
Taken: TypeAlias = Sequence[bytes | Path]
"""What is to be written; a path stands where the part of that name begins."""


class PartGone(OSError):
    """Somebody else removed, replaced or shortened the part that is being written."""


class CaptureFile:
    """Queues lines and knows where they will begin. Only `write`, `close` and its making touch the disk."""

    def __init__(self, path: Path, max_bytes: int | None, started: float) -> None:
        """Open the first part. Raises: OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.places = Places()
        self._max_bytes = max_bytes
        self._started = started
        self._connections: dict[int, bytes] = {}
        self._queue: list[bytes | Path] = []
        self._queued = self._under_way = self._offset = self._head = 0
        self._part = -1
        """The one lines are queued for, from 0; the disk may be some behind."""
        self.missing = 0
        """Frames that are not in the file and will never be."""
        self._firsts: list[int] = []
        """The first frame of each part lines were queued for."""
        self._refused: list[bytes | memoryview | Path] = []
        """What the disk did not take so far, in order."""
        self._written = 0
        """Bytes of the part on disk."""
        self.path, self._handle = _created(path)
        private_files.hold(self._handle)
        self.places.parts.append(self.path)
        self._begin()

    @property
    def waiting(self) -> int:
        """Bytes that are not with the operating system yet."""
        return self._queued + self._under_way

    def add_connection(self, info: ConnectionInfo) -> None:
        """Append what is known of a connection; open ones are repeated at the head of every part."""
        line = connection_line(info)
        self._put(line)
        self._connections[info.number] = line
        if info.closed is not None:
            del self._connections[info.number]

    def add_mark(self, mark: HeldMark) -> None:
        """Append what became of a held message."""
        self._put(mark_line(mark))

    def add_log(self, log: CallLog) -> None:
        """Append what the code of a call said."""
        self._put(log_line(log))

    def add(self, group: Group) -> None:
        """Append the lines of the next frames, in a new part when this one is full."""
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
        """Say that the note on a frame holds for others, too; False when it does not lie in this part."""
        if not self.places.share_note(noted, frames, self._part):
            return False
        self._put(same_line(noted, frames))
        return True

    def add_loss(self, stop: int, why: str) -> None:
        """State that the frames from the next one up to `stop` (excluded) were never written."""
        start = len(self.places)
        self.missing += stop - start
        self._put(lost_line(start, stop, why))
        self.places.skip_frames(stop - start)

    def take(self) -> Taken:
        """What is queued, to be written next; it is queued no more."""
        taken, self._queue = self._queue, []
        self._queued, self._under_way = 0, self._under_way + self._queued
        return taken

    def write(self, taken: Taken) -> None:
        """Hand all of it to the operating system: a killed process loses nothing that came this far.

        What is refused is kept and written first by the next call.
        Raises: OSError; PartGone when `begin_again` has to come first.
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
        """Go on in a further part, which is returned, because the one on disk is not ours any more.

        Queued lines are dropped: their places lay in that part. The caller keeps others from queueing.
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

    def close(self) -> None:
        """Write what is left and close; reading back still works afterwards. Raises: OSError."""
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
        """Make sure that the next line lands where it is looked for; always True.

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
            # An attempt that failed may have left something behind.
            os.ftruncate(self._handle, self._written)
        return True

    def _open_part(self, path: Path) -> None:
        """Begin the next part on disk."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        done, self._handle = self._handle, private_files.create(path)
        private_files.hold(self._handle)
        os.close(done)
        self._written = 0
        # Only now: before, a file of that name is somebody else's.
        self.places.parts.append(path)

    def _write_lines(self) -> None:
        """Write what is refused up to the next part, as much of it as the disk takes."""
        refused = self._refused
        end = next((at for at, piece in enumerate(refused) if isinstance(piece, Path)), len(refused))
        lines = [piece for piece in refused[:end] if not isinstance(piece, Path)]
        try:
            while lines:
                # Handed over piece by piece: joined, every byte would be copied once more.
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
    """Open the first part under a name that no other capture has."""
    attempt = path
    for number in range(1, 1000):
        try:
            return attempt, private_files.create(attempt)
        except FileExistsError:
            attempt = path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
    raise FileExistsError(f"too many captures are called {path.name}")


_PART_BITS = 40
_OFFSET_MASK = (1 << _PART_BITS) - 1
_RUN = 1 << 63
_FIRST_READ = 4 << 10
_LARGEST_READ = 16 << 20
_AT_ONCE = 1 << 20


def part_path(path: Path, part: int) -> Path:
    """Where part `part` (from 1) of a capture lies: `a.jsonl`, then `a.2.jsonl`, `a.3.jsonl` ..."""
    return path if part == 1 else path.with_name(f"{path.stem}.{part}{path.suffix}")


class Places:
    """Where the lines of frames and notes are in the parts of a capture: 8 bytes for each frame."""

    def __init__(self) -> None:
        self.parts: list[Path] = []
        """Parts that are on disk. Lines of a later part cannot be read yet."""
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
        """Remember where the lines of the next `count` frames begin; `part` counts from 0."""
        place = part << _PART_BITS | offset | is_run * _RUN
        self._frames.extend(array("Q", (place,)) * count)

    def skip_frames(self, count: int) -> None:
        """Remember that the next `count` frames are not in the file."""
        self._frames.extend([0] * count)

    def set_note(self, frame: int, part: int, offset: int) -> None:
        """Remember where the note on a frame is; ignored for a frame that was never added."""
        if 0 <= frame < len(self._frames):
            if frame >= len(self._notes):
                self._notes.frombytes(bytes(8 * (len(self._frames) - len(self._notes))))
            self._notes[frame] = part << _PART_BITS | offset

    def share_note(self, noted: int, frames: Sequence[int], part: int | None = None) -> bool:
        """Use the note on `noted` for other frames; False when it is not in the file, or not in `part`."""
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
        if not place:
            return None
        with self._lock:
            known, start, lines = self._group
            if place != known:
                try:
                    start, lines = self._read_group(number, place)
                except (OSError, ValueError):
                    return None
                if len(lines) > 1:
                    self._group = (place, start, lines)
            return lines[number - start]

    def frame_lines(self, start: int, stop: int) -> list[bytes | None]:
        """The lines of successive frames, None for those not on disk; neighbours are read at once."""
        numbers = range(start, min(stop, len(self._frames)))
        places = self._frames[start : numbers.stop]
        if len(places) < 3 or not 0 < places[0] < places[-1] < min(places[0] + _AT_ONCE, _RUN):
            return [self.frame_line(number) for number in numbers]
        begin, found = places[0], list[bytes | None]()
        with self._lock:
            try:
                handle = self._handle(begin >> _PART_BITS)
                read = os.pread(handle, places[-1] - begin, begin & _OFFSET_MASK)
                for at, after in pairwise(places):
                    if not begin <= at < after:
                        raise ValueError("frames that are not one after the other")
                    # Lines of other kinds may stand between two frames.
                    found.append(read[at - begin : read.index(b"\n", at - begin) + 1])
            except (OSError, ValueError):
                found.clear()
        return found + [self.frame_line(number) for number in numbers[len(found) :]]

    def piece(self, start: int, stop: int) -> bytes | None:
        """What stands between the lines of two frames, the first included; None when they are not close."""
        places = self._frames
        if not 0 <= start < stop < len(places) or not (
            0 < places[start] < places[stop] < min(places[start] + _AT_ONCE, _RUN)
        ):
            return None
        begin = places[start]
        with self._lock:
            try:
                handle = self._handle(begin >> _PART_BITS)
                return os.pread(handle, places[stop] - begin, begin & _OFFSET_MASK)
            except OSError:
                return None

    def note_line(self, number: int) -> bytes | None:
        """The line of the note on a frame, or None."""
        place = self._notes[number] if 0 <= number < len(self._notes) else 0
        if not place:
            return None
        with self._lock:
            try:
                return self._read(place >> _PART_BITS, place & _OFFSET_MASK, 1)
            except (OSError, ValueError):
                return None

    def close(self) -> None:
        """Close the open file; reading opens it again."""
        with self._lock:
            if self._open is not None:
                os.close(self._open[1])
            self._open = None

    def _read_group(self, number: int, place: int) -> tuple[int, list[bytes]]:
        """The first frame and the lines of the group at a place, of which `number` is one.

        Frames of a run have lines there, too. Raises: OSError; ValueError when the file is not what it was.
        """
        places = self._frames
        start = stop = number
        while start and places[start - 1] == place:
            start -= 1
        while stop < len(places) and places[stop] == place:
            stop += 1
        is_run, place = bool(place & _RUN), place & ~_RUN
        read = self._read(place >> _PART_BITS, place & _OFFSET_MASK, stop - start + is_run)
        if stop - start == 1 and not is_run:
            return start, [read]
        lines = read.split(b"\n")[:-1]
        return start, run_lines(lines) if is_run else [line + b"\n" for line in lines]

    def read(self, number: int, start: int, count: int) -> bytes:
        """Bytes of the line of a frame, from `start` on; none when they are not on disk any more."""
        place = self._frames[number] & ~_RUN
        with self._lock:
            try:
                return os.pread(self._handle(place >> _PART_BITS), count, (place & _OFFSET_MASK) + start)
            except OSError:
                return b""

    def _read(self, part: int, offset: int, count: int) -> bytes:
        """Whole lines at a place. Raises: OSError; ValueError when the file ends before they do."""
        handle = self._handle(part)
        pieces, wanted, size = list[bytes](), count, _FIRST_READ * min(count, 16)
        while wanted:
            piece = os.pread(handle, size, offset)
            if not piece:
                raise ValueError("the file ends within a line")
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
