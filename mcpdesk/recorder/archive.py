"""Capture file on disk, with the interface of a running recording. Only positions are kept in memory.

The file may be damaged or malicious. Memory and time stay proportional to its size, and no line can crash the
program. Frames get new numbers without gaps; `gaps` lists where frames are missing.
"""

from __future__ import annotations

import re
import shlex
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from time import perf_counter
from typing import IO, Final

import msgspec

from mcpdesk import private_files
from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.capture.capture_lines import (
    Line,
    frame_bytes,
    json_start,
    line_bytes,
    line_frame,
    long_frame,
    read_back,
    read_line,
)
from mcpdesk.recorder.capture.capture_parts import existing_part, next_part, part_of, part_path
from mcpdesk.recorder.capture.line_positions import LinePositions
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import (
    END_BYTES,
    MAX_REMARKS,
    CallLog,
    ConnectionInfo,
    Frame,
    Gap,
    HeldMark,
    HttpNote,
    RecordedRemark,
    remark_limit,
    within_search_limit,
)

MAX_LOGS: Final = 200_000
"""Maximum number of log lines of calls that are shown."""
MAX_FRAMES: Final = 5_000_000
"""Maximum number of frames that are shown. Each needs about a hundred bytes of memory."""
_MAX_GAP_FRAMES: Final = 10_000_000
"""Maximum number of missing frames without a line that reports the gap. If more are missing, a frame number
must be damaged.
"""
_MAX_LINE_READ_BYTES: Final = 256 << 10
"""Maximum number of bytes of a line that are read at once.

Of a longer line with a JSON frame, only both ends are read.
"""
_MAX_OTHER_LINE_BYTES: Final = 32 << 20
"""Maximum size in bytes of a line without a JSON frame, which must be read completely.

A longer line counts as damaged.
"""
_MAX_FRAME_BYTES: Final = 64 << 20
"""Maximum size in bytes of a frame that is read back. The recorder never writes a longer frame."""
_MAX_RUN_BYTES: Final = 4 << 20
"""Maximum size in bytes of the lines of a run."""
_HEAD_BYTES: Final = 320
"""Number of bytes at the beginning of a line in which its frame begins."""
_CLOCK_CHECK_MASK = 1_023
"""Bit mask for numbers of lines. The clock is checked when all these bits are set, once in 1,024 lines."""
_NUMBER = rb"(?:0|[1-9]\d{0,14})"
"""Number without leading zeros."""
_FRAME_LINE = re.compile(
    rb'\{"n":(%b),"t":((?:0|[1-9]\d{0,10})\.\d{1,9}),"c":%b,"d":"(?:in|out)","json":' % (_NUMBER, _NUMBER)
)
"""Beginning of an ordinary line with a frame. Most lines of a capture are of this kind."""
_EXPORTED_EXCHANGE = re.compile(rb'\{"(?:number":\d+,"time":[^,]+,"kind":"|kind":"gap","frames")')
"""Beginning of a JSON Lines export of exchanges, which is not a capture."""
_frame_number = itemgetter(0)


class Archive:
    """Frames and other data in the parts of a capture (implements `Source`)."""

    first = removed = 0
    """Always 0, because frames get new numbers. Removed parts count as a gap before the first frame."""

    def __init__(self, path: Path, budget_s: float = inf) -> None:
        """Read the capture that begins at `path`, with all its parts, for about `budget_s` seconds.

        Call `read_new_data` to read the remaining data. If `path` was removed to free space, the capture
        begins with the next part. Raises: DeskUserError if the file is not a capture.
        """
        path = existing_part(path)
        require_capture(path)
        self.path = path
        self._first_path, self._part_number = part_of(path)
        """Path of part 1, which may no longer exist, and number of the newest part that was opened."""
        self.is_live = True
        """True if another process still writes the capture. Call `read_new_data` to read the new data."""
        self.is_behind = False
        """True if the file has data that were not read yet. Call `read_new_data` to read them."""
        self.connections: dict[int, ConnectionInfo] = {}
        self.unreadable = 0
        """Number of invalid lines: damaged lines, or the incomplete last line of a killed process."""
        self.is_cut = False
        """True if the capture has more frames than `MAX_FRAMES`."""
        self._positions = LinePositions()
        self._positions.parts.append(path)
        self._gaps: list[Gap] = []
        self.marks: list[HeldMark] = []
        """Decisions about held messages."""
        self.remarks: list[RecordedRemark] = []
        self.remarks_left_out = 0
        self.call_logs: list[CallLog] = []
        """Log lines of calls, at most the first `MAX_LOGS`."""
        self._spans: list[tuple[int, int]] = [(0, 0)]
        """First frame after each gap: pairs of the number in the file and the number in this archive."""
        self._next_number = 0
        """Number in the file of the frame that is expected next."""
        self._reported_gap: tuple[int, str] = (0, "")
        """Gap that the file reports: number of the first frame after the gap, and the reason."""
        self._long_line_sizes: dict[int, int] = {}
        """Sizes of long lines, by frame."""
        self._encoded_frames = array("q")
        """Ascending numbers of the frames that are encoded, for example in base64, and not stored as plain
        JSON."""
        self._last_time = 0.0
        """Unix time of the last frame in seconds."""
        self._offset = 0
        """Number of bytes of the last part that were read."""
        self.read_new_data(budget_s)
        self.index = Index(self)
        self.index.raw = self.raw

    @property
    def count(self) -> int:
        """Number of frames read from the file so far."""
        return len(self._positions)

    @property
    def gaps(self) -> Sequence[Gap]:
        """Gaps of missing frames."""
        return self._gaps

    def frame(self, number: int) -> Frame | None:
        """Read one frame from disk."""
        return self.frames(number, number + 1)[0] if 0 <= number < self.count else None

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Read successive frames from disk."""
        if self._has_long(start, stop):
            return [self._read_frame(number) for number in range(start, stop)]
        return [
            _numbered(line, start + index)
            for index, line in enumerate(self._positions.frame_lines(start, stop))
        ]

    def _read_frame(self, number: int) -> Frame | None:
        """Read one frame. Of a long line, only both ends are read."""
        if (size := self._long_line_sizes.get(number)) is None:
            return _numbered(self._positions.frame_line(number), number)
        head = self._positions.read(number, 0, _MAX_LINE_READ_BYTES)
        tail = self._positions.read(number, size - END_BYTES - 2, END_BYTES + 2)
        try:
            frame = long_frame(head, tail, size)
        except ValueError:
            return None
        return frame if frame.number == number else msgspec.structs.replace(frame, number=number)

    def _has_long(self, start: int, stop: int) -> bool:
        """Return True if a frame of the range has a line that is too long to be read completely."""
        return bool(self._long_line_sizes) and any(
            number in self._long_line_sizes for number in range(start, stop)
        )

    def frame_bytes(self, number: int) -> bytes:
        """Return all bytes of a frame."""
        if (size := self._long_line_sizes.get(number)) is None:
            return read_back(self._positions.frame_line(number), line_bytes) or b""
        start = json_start(self._positions.read(number, 0, _HEAD_BYTES))
        return self._positions.read(number, start, min(size - start - 2, _MAX_FRAME_BYTES)) if start else b""

    def note(self, number: int) -> HttpNote | None:
        """Return the HTTP metadata of a frame, or None."""
        return read_back(self._positions.note_line(number), attrgetter("note"))

    def data(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of successive frames, in total at most `MAX_SEARCH_BYTES` bytes."""
        if self._has_long(start, stop):
            return within_search_limit(map(self.frame_bytes, range(start, stop)))
        return within_search_limit(map(_bytes_of, self._positions.frame_lines(start, stop)))

    def raw(self, start: int, stop: int) -> bytes | None:
        """Return the bytes of the file that contain these frames.

        None if the frames are not close together, or if one of them is encoded, for example in base64.
        """
        encoded_frames = self._encoded_frames
        index = bisect_left(encoded_frames, start)
        if index < len(encoded_frames) and encoded_frames[index] < stop:
            return None
        return self._positions.piece(start, stop)

    def close(self) -> None:
        """Close the file."""
        self._positions.close()

    def read_new_data(self, budget_s: float = inf) -> None:
        """Read new data for about `budget_s` seconds. Only one thread at a time may call this method.

        Raises: OSError.
        """
        parts, deadline = self._positions.parts, perf_counter() + budget_s
        while self.is_live or self.is_behind:
            # Check both before reading. A process that writes a capture creates the next part before it
            # releases the current one, so a part that is not held is complete, and its successor exists,
            # unless it is the last part.
            self.is_live = private_files.is_held(parts[-1])
            successor = None if self.is_live else next_part(self._first_path, self._part_number)
            try:
                is_at_end = self._read_part(len(parts) - 1, parts[-1], deadline, is_growing=self.is_live)
            except FileNotFoundError:  # the part was removed to free space
                is_at_end = True
            self.is_behind = not is_at_end
            if self.is_behind:
                return
            if successor is None:
                break
            path, self._part_number = successor
            parts.append(path)
            self._offset = 0
            self.is_live = True  # until the next turn checks the new part
        if not self.is_live:
            self._close_connections()

    def _read_part(self, part: int, path: Path, deadline: float, *, is_growing: bool) -> bool:
        """Read a part from `_offset` on. Return False if there was not enough time.

        If the part `is_growing`, an incomplete last line is not read yet.
        """
        positions, offset = self._positions, self._offset
        line_count = 0
        is_at_end = True
        with path.open("rb") as file:
            file.seek(offset)
            for raw in iter(partial(file.readline, _MAX_LINE_READ_BYTES), b""):
                if len(positions) >= MAX_FRAMES:
                    self.is_cut = True
                    break
                if line_count & _CLOCK_CHECK_MASK == _CLOCK_CHECK_MASK and perf_counter() > deadline:
                    is_at_end = False
                    break
                line_count += 1
                frame_match = _FRAME_LINE.match(raw) if raw.endswith(b"}\n") else None
                if frame_match and int(frame_match[1]) == self._next_number:
                    positions.add(1, part, offset)
                    self._next_number += 1
                    self._last_time = float(frame_match[2])
                    offset += len(raw)
                    continue
                is_long = len(raw) == _MAX_LINE_READ_BYTES and not raw.endswith(b"\n")
                size, tail = _rest_of_line(raw, file) if is_long else (len(raw), raw)
                if is_growing and not tail.endswith(b"\n"):
                    break
                try:
                    if is_long and json_start(raw):
                        self._add_long(long_frame(raw, tail, size), part, offset, size)
                    elif is_long and size > _MAX_OTHER_LINE_BYTES:
                        raise ValueError(f"a line of {size} bytes")
                    else:
                        line = read_line(_reread(file, offset, size) if is_long else raw)
                        frame_count, run_bytes, is_cut = 1, 0, False
                        if line.run:
                            frame_count, run_bytes, is_cut = self._measure_run(line.run, file)
                        if is_growing and frame_count < line.run:
                            break
                        self.unreadable += is_cut
                        size += run_bytes
                        self._add_line(line, part, offset, frame_count)
                except ValueError:
                    self.unreadable += 1
                offset += size
        self._offset = offset
        return is_at_end

    def _measure_run(self, count: int, file: IO[bytes]) -> tuple[int, int, bool]:
        """Read the lines after the header of a run of `count` frames.

        Return the number of complete lines, the number of bytes read, and True if the last line is
        incomplete.
        """
        frames = size = 0
        while frames < count and size < _MAX_RUN_BYTES:
            raw = file.readline(_MAX_LINE_READ_BYTES)
            size += len(raw)
            if not raw.endswith(b"\n"):
                return frames, size + _rest_of_line(raw, file)[0] - len(raw), bool(raw)
            frames += 1
        return frames, size, False

    def _add_line(self, line: Line, part: int, offset: int, count: int) -> None:
        """Store the position or the content of a line.

        `count` is the number of frames in the file that belong to the line: more than 1 only for a run.
        """
        if line.connection is not None:
            self.connections[line.connection.number] = line.connection
        elif line.note is not None:
            self._positions.set_note(self._archive_number(line.note.frame), part, offset)
        elif line.same:
            note_frame, *other_frames = map(self._archive_number, line.same)
            self._positions.share_note(note_frame, other_frames)
        elif line.mark is not None:
            self.marks.append(line.mark)
        elif line.remark is not None:
            if len(self.remarks) < remark_limit(line.remark, MAX_REMARKS):
                self.remarks.append(line.remark)
            else:
                self.remarks_left_out += 1
        elif line.log is not None:
            if len(self.call_logs) < MAX_LOGS:
                self.call_logs.append(line.log)
        elif line.lost is not None:
            self._reported_gap = (line.lost[1], line.why)
        elif line.capture is not None:
            if line.first > self._next_number:
                self._reported_gap = (line.first, self._reason_before(line.part))
        elif line.n >= 0:
            line_bytes(line)
            if not line.json and not line.run:
                self._encoded_frames.append(len(self._positions))
            self._add_frames(line.n, count, part, offset, is_run=line.run > 0)
            self._last_time = line.t
        else:
            raise ValueError("a line of unknown kind")

    def _reason_before(self, part: int) -> str:
        """Return the reason why frames before a part are missing."""
        earlier_path = part_path(self._first_path, part - 1)
        return "they are in an earlier part" if earlier_path.is_file() else "earlier parts were removed"

    def _add_long(self, frame: Frame, part: int, offset: int, size: int) -> None:
        """Store the position and the size in bytes of a long line. `frame` has its number in the file."""
        number = len(self._positions)
        # The size is stored first, because another thread can see the frame as soon as it has a position.
        self._long_line_sizes[number] = size
        try:
            self._add_frames(frame.number, 1, part, offset)
        except ValueError:
            del self._long_line_sizes[number]
            raise
        self._last_time = frame.time

    def _add_frames(
        self, file_number: int, count: int, part: int, offset: int, *, is_run: bool = False
    ) -> None:
        """Store the positions of `count` frames. The first one has `file_number` in the file."""
        if not count:
            return  # the run was cut off before its first frame
        missing_count = file_number - self._next_number
        gap_stop, gap_reason = self._reported_gap
        if missing_count < 0 or (missing_count > _MAX_GAP_FRAMES and file_number > gap_stop):
            raise ValueError(f"frame {file_number} cannot follow {self._next_number - 1}")
        if missing_count:
            reason = gap_reason if self._next_number < gap_stop else ""
            self._gaps.append(Gap(len(self._positions), missing_count, reason))
            self._spans.append((file_number, len(self._positions)))
        self._positions.add(count, part, offset, is_run=is_run)
        self._next_number = file_number + count

    def _archive_number(self, file_number: int) -> int:
        """Convert the number of a frame in the file to its number in this archive.

        -1 if the frame is missing.
        """
        if file_number < 0:
            return -1
        next_span = bisect_right(self._spans, file_number, key=_frame_number)
        span_file_number, span_number = self._spans[next_span - 1]
        span_stop = self._spans[next_span][1] if next_span < len(self._spans) else len(self._positions)
        number = span_number + file_number - span_file_number
        return number if number < span_stop else -1

    def _close_connections(self) -> None:
        """Mark the connections that were open at the end of the file as closed."""
        for number, info in self.connections.items():
            if info.closed is None:
                self.connections[number] = msgspec.structs.replace(
                    info, closed=max(self._last_time, info.opened)
                )


def require_capture(path: Path) -> None:
    """Check that a file is a capture, without reading all of it. Raises: DeskUserError if it is not."""
    command = "mcpdesk settings"
    hint = f"`{command}` prints the folder of the captures; their names end in .jsonl."
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # Opening a pipe would wait until another process writes to it.
            raise DeskUserError(f"{path} is not a file.", hint, next_command=command)
        with path.open("rb") as file:
            first_line = file.readline(4096)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}."
        raise DeskUserError(message, hint, next_command=command) from None
    try:
        is_capture = read_line(first_line).capture is not None
    except ValueError:
        is_capture = False
    if not first_line and (second_part := part_path(path, 2)).is_file():
        command = shlex.join(["mcpdesk", "open", str(second_part)])
        hint = f"The capture continues: use `{command}`."
        raise DeskUserError(f"{path} is empty.", hint, next_command=command)
    if _EXPORTED_EXCHANGE.match(first_line):
        hint = "Export traffic as a capture to open it again: `w` and `o` in Traffic."
        raise DeskUserError(f"{path} is not a capture, but an export as JSON Lines.", hint)
    if not is_capture:
        raise DeskUserError(f"{path} is not a capture of mcpdesk.", hint, next_command=command)


def _numbered(line: bytes | None, number: int) -> Frame | None:
    """Return the frame in a line, with a new number."""
    frame = read_back(line, line_frame)
    return frame if frame is None or frame.number == number else msgspec.structs.replace(frame, number=number)


def _bytes_of(line: bytes | None) -> bytes:
    """Return the bytes of a frame from its line. Empty if the line is missing or invalid."""
    try:
        return b"" if line is None else frame_bytes(line)
    except ValueError:
        return b""


def _rest_of_line(raw: bytes, file: IO[bytes]) -> tuple[int, bytes]:
    """Read the line that begins with `raw` up to its end. Return its length and its last bytes."""
    size, tail = len(raw), raw
    while not tail.endswith(b"\n") and (piece := file.readline(_MAX_LINE_READ_BYTES)):
        size += len(piece)
        tail = tail[-END_BYTES - 2 :] + piece
    return size, tail[-END_BYTES - 2 :]


def _reread(file: IO[bytes], offset: int, size: int) -> bytes:
    """Read a line of `size` bytes again from its beginning."""
    file.seek(offset)
    return file.read(size)
