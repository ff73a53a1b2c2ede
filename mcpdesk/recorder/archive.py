"""A capture file opened from disk, looked at like a running recording. Only places stay in memory.

The file may be damaged, or made by somebody who means harm: what it says takes memory and time in proportion
to its own size, and no line of it ends the program. Frames are numbered anew, without gaps: where some are
missing, `gaps` says so.
"""

from __future__ import annotations

import re
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
from mcpdesk.recorder.capture.places import Places
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import (
    END_BYTES,
    MOST_REMARKS,
    CallLog,
    ConnectionInfo,
    Frame,
    Gap,
    HeldMark,
    HttpNote,
    RecordedRemark,
    up_to_most,
)

MOST_LOGS: Final = 200_000
"""Log lines of calls that are shown."""
MOST_FRAMES: Final = 5_000_000
"""Frames that are shown: each takes about a hundred bytes of memory, however few it has in the file."""
_LONGEST_GAP: Final = 10_000_000
"""Frames that may be missing where no line says so; more is a damaged number."""
_LONG_LINE: Final = 256 << 10
"""Bytes of a line that are read at once; of a longer one with a JSON frame, only beginning and end are."""
_LONGEST_OTHER: Final = 32 << 20
"""Bytes of a line that has to be read as a whole; a longer one is damage."""
_LONGEST_FRAME: Final = 64 << 20
"""Bytes of a frame that are read back; nothing longer is written."""
_MOST_RUN_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 320
_LOOK = 1_023
"""Lines between two looks at the clock, as a mask."""
_NUMBER = rb"(?:0|[1-9]\d{0,14})"
_PLAIN = re.compile(
    rb'\{"n":(%b),"t":((?:0|[1-9]\d{0,10})\.\d{1,9}),"c":%b,"d":"(?:in|out)","json":' % (_NUMBER, _NUMBER)
)
"""How the line of a frame begins that says nothing out of the ordinary: most of a capture."""
_EXCHANGE = re.compile(rb'\{"(?:number":\d+,"time":[^,]+,"kind":"|kind":"gap","frames")')
"""How JSON Lines of exchanges begin."""
_first = itemgetter(0)


class Archive:
    """Implements `Source` over the parts of a capture."""

    first = removed = 0
    """Frames are numbered anew: parts that were removed are a gap before the first one."""

    def __init__(self, path: Path, first_s: float = inf) -> None:
        """Find every line of the capture that begins at `path`, its further parts included.

        If `path` was removed to make room, the capture begins with the next part.

        Only for about `first_s` seconds: what is not found then, `read_on` finds.

        Raises: DeskUserError when there is no capture.
        """
        path = existing_part(path)
        require_capture(path)
        self.path = path
        self._first_path, self._part_number = part_of(path)
        """Path of part 1, which may not exist any more, and the number of the part read last."""
        self.is_live = True
        """Whether somebody writes it at present: `read_on` finds what came since."""
        self.is_behind = False
        """Whether there is more than was read so far: `read_on` goes on."""
        self.connections: dict[int, ConnectionInfo] = {}
        self.unreadable = 0
        """Lines that are no lines of a capture: the last one of a killed process, or damage."""
        self.is_cut = False
        """Whether there are more frames than are shown."""
        self._places = Places()
        self._places.parts.append(path)
        self._gaps: list[Gap] = []
        self.marks: list[HeldMark] = []
        """What became of messages that were held."""
        self.remarks: list[RecordedRemark] = []
        self.remarks_left_out = 0
        self.call_logs: list[CallLog] = []
        """What the code of calls said, as far as it is kept: the first lines."""
        self._spans: list[tuple[int, int]] = [(0, 0)]
        """Numbers in the file, and here, of frames from which on there are no gaps up to the next of them."""
        self._next = 0
        """The number in the file of the frame that should come next."""
        self._lost: tuple[int, str] = (0, "")
        """The last frame the file says is missing (excluded), and why."""
        self._long: dict[int, int] = {}
        """Lengths of long lines, by frame."""
        self._encoded = array("q")
        """Frames that do not stand in the file as they are, rising."""
        self._last = 0.0
        """Unix time in seconds of the last frame."""
        self._offset = 0
        """Bytes read of the last part."""
        self.read_on(first_s)
        self.index = Index(self)
        self.index.raw = self.raw

    @property
    def count(self) -> int:
        """Frames found."""
        return len(self._places)

    @property
    def gaps(self) -> Sequence[Gap]:
        """Where frames are missing."""
        return self._gaps

    def frame(self, number: int) -> Frame | None:
        """One frame, read from disk."""
        return self.frames(number, number + 1)[0] if 0 <= number < self.count else None

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Successive frames, read from disk."""
        if self._has_long(start, stop):
            return [self._long_or_short(number) for number in range(start, stop)]
        return [_numbered(line, start + at) for at, line in enumerate(self._places.frame_lines(start, stop))]

    def _long_or_short(self, number: int) -> Frame | None:
        if (size := self._long.get(number)) is None:
            return _numbered(self._places.frame_line(number), number)
        head = self._places.read(number, 0, _LONG_LINE)
        tail = self._places.read(number, size - END_BYTES - 2, END_BYTES + 2)
        try:
            found = long_frame(head, tail, size)
        except ValueError:
            return None
        return found if found.number == number else msgspec.structs.replace(found, number=number)

    def _has_long(self, start: int, stop: int) -> bool:
        """Whether a frame is so long that its line is not read as a whole."""
        return bool(self._long) and any(number in self._long for number in range(start, stop))

    def whole(self, number: int) -> bytes:
        """All bytes of a frame."""
        if (size := self._long.get(number)) is None:
            return read_back(self._places.frame_line(number), line_bytes) or b""
        start = json_start(self._places.read(number, 0, _HEAD_BYTES))
        return self._places.read(number, start, min(size - start - 2, _LONGEST_FRAME)) if start else b""

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame."""
        return read_back(self._places.note_line(number), attrgetter("note"))

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames, of as many as can be held."""
        if self._has_long(start, stop):
            return up_to_most(map(self.whole, range(start, stop)))
        return up_to_most(map(_bytes_of, self._places.frame_lines(start, stop)))

    def raw(self, start: int, stop: int) -> bytes | None:
        """The piece of the file with successive frames; None where one is written otherwise."""
        encoded, at = self._encoded, bisect_left(self._encoded, start)
        return None if at < len(encoded) and encoded[at] < stop else self._places.piece(start, stop)

    def close(self) -> None:
        """Let go of the file."""
        self._places.close()

    def read_on(self, budget_s: float = inf) -> None:
        """Read what was written since, for about `budget_s` seconds. Used by one thread at a time.

        Raises: OSError.
        """
        parts, until = self._places.parts, perf_counter() + budget_s
        while self.is_live or self.is_behind:
            # In this order: of a part that is not held, or is followed by another one, all is there.
            self.is_live = private_files.is_held(parts[-1])
            further = None if self.is_live else next_part(self._first_path, self._part_number)
            try:
                at_end = self._read_part(len(parts) - 1, parts[-1], until, grows=self.is_live)
            except FileNotFoundError:  # removed to make room
                at_end = True
            self.is_behind = not at_end
            if self.is_behind:
                return
            if further is None:
                break
            self.is_live, self._offset = True, 0
            path, self._part_number = further
            parts.append(path)
        if not self.is_live:
            self._close_connections()

    def _read_part(self, part: int, path: Path, until: float, *, grows: bool) -> bool:
        """Read a part from where it was left; False when that took too long to come to its end.

        Of a part that grows, the line that is being written waits.
        """
        offset, places, lines, at_end = self._offset, self._places, 0, True
        with path.open("rb") as file:
            file.seek(offset)
            for raw in iter(partial(file.readline, _LONG_LINE), b""):
                if len(places) >= MOST_FRAMES:
                    self.is_cut = True
                    break
                if lines & _LOOK == _LOOK and perf_counter() > until:
                    at_end = False
                    break
                lines += 1
                plain = _PLAIN.match(raw) if raw.endswith(b"}\n") else None
                if plain and int(plain[1]) == self._next:
                    places.add(1, part, offset)
                    self._next += 1
                    self._last = float(plain[2])
                    offset += len(raw)
                    continue
                is_long = len(raw) == _LONG_LINE and not raw.endswith(b"\n")
                size, tail = _rest_of_line(raw, file) if is_long else (len(raw), raw)
                if grows and not tail.endswith(b"\n"):
                    break
                try:
                    if is_long and json_start(raw):
                        self._place_long(long_frame(raw, tail, size), part, offset, size)
                    elif is_long and size > _LONGEST_OTHER:
                        raise ValueError(f"a line of {size} bytes")
                    else:
                        line = read_line(_again(file, offset, size) if is_long else raw)
                        count, length, is_cut = self._run(line.run, file) if line.run else (1, 0, False)
                        if grows and count < line.run:
                            break
                        self.unreadable += is_cut
                        size += length
                        self._place(line, part, offset, count)
                except ValueError:
                    self.unreadable += 1
                offset += size
        self._offset = offset
        return at_end

    def _run(self, count: int, file: IO[bytes]) -> tuple[int, int, bool]:
        """How many lines of a run are there, their bytes, and whether one is cut off."""
        frames = size = 0
        while frames < count and size < _MOST_RUN_BYTES:
            raw = file.readline(_LONG_LINE)
            size += len(raw)
            if not raw.endswith(b"\n"):
                return frames, size + _rest_of_line(raw, file)[0] - len(raw), bool(raw)
            frames += 1
        return frames, size, False

    def _place(self, line: Line, part: int, offset: int, count: int) -> None:
        """Remember where a line of one kind or another is; if one of frames, of `count`."""
        if line.connection is not None:
            self.connections[line.connection.number] = line.connection
        elif line.note is not None:
            self._places.set_note(self._position(line.note.frame), part, offset)
        elif line.same:
            noted, *others = map(self._position, line.same)
            self._places.share_note(noted, others)
        elif line.mark is not None:
            self.marks.append(line.mark)
        elif line.remark is not None:
            if len(self.remarks) < MOST_REMARKS:
                self.remarks.append(line.remark)
            else:
                self.remarks_left_out += 1
        elif line.log is not None:
            if len(self.call_logs) < MOST_LOGS:
                self.call_logs.append(line.log)
        elif line.lost is not None:
            self._lost = (line.lost[1], line.why)
        elif line.capture is not None:
            if line.first > self._next:
                self._lost = (line.first, self._reason_before(line.part))
        elif line.n >= 0:
            line_bytes(line)
            if not line.json and not line.run:
                self._encoded.append(len(self._places))
            self._place_frames(line.n, count, part, offset, is_run=line.run > 0)
            self._last = line.t
        else:
            raise ValueError("a line of no kind that is known")

    def _reason_before(self, part: int) -> str:
        """Reason why frames are missing right before a part."""
        before = part_path(self._first_path, part - 1)
        return "they are in an earlier part" if before.is_file() else "earlier parts were removed"

    def _place_long(self, frame: Frame, part: int, offset: int, size: int) -> None:
        at = len(self._places)
        self._long[at] = size  # before anybody sees the frame
        try:
            self._place_frames(frame.number, 1, part, offset)
        except ValueError:
            del self._long[at]
            raise
        self._last = frame.time

    def _place_frames(self, number: int, count: int, part: int, offset: int, *, is_run: bool = False) -> None:
        """Remember where frames are, of which the first has a number in the file."""
        if not count:
            return  # a run that was cut off before its first frame
        gap, (stop, why) = number - self._next, self._lost
        if gap < 0 or (gap > _LONGEST_GAP and number > stop):
            raise ValueError(f"frame {number} cannot follow {self._next - 1}")
        if gap:
            self._gaps.append(Gap(len(self._places), gap, why if self._next < stop else ""))
            self._spans.append((number, len(self._places)))
        self._places.add(count, part, offset, is_run=is_run)
        self._next = number + count

    def _position(self, number: int) -> int:
        """The number here of a frame that has a number in the file; -1 for one that is not there."""
        if number < 0:
            return -1
        at = bisect_right(self._spans, number, key=_first)
        first, position = self._spans[at - 1]
        stop = self._spans[at][1] if at < len(self._spans) else len(self._places)
        found = position + number - first
        return found if found < stop else -1

    def _close_connections(self) -> None:
        """What was open when the file ends is closed there: nothing more will come."""
        for number, info in self.connections.items():
            if info.closed is None:
                self.connections[number] = msgspec.structs.replace(info, closed=max(self._last, info.opened))


def require_capture(path: Path) -> None:
    """Refuse what is no capture, before reading all of it. Raises: DeskUserError."""
    hint = "Captures lie where `mcpdesk settings` says, and end in .jsonl."
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            # Opening a pipe would wait for somebody to write to it.
            raise DeskUserError(f"{path} is not a file.", hint)
        with path.open("rb") as file:
            start = file.readline(4096)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be read: {error.strerror}.", hint) from None
    try:
        is_capture = read_line(start).capture is not None
    except ValueError:
        is_capture = False
    if not start and (further := part_path(path, 2)).is_file():
        raise DeskUserError(f"{path} is empty.", f"The capture goes on: use `mcpdesk open {further}`.")
    if _EXCHANGE.match(start):
        hint = "Traffic that is to be opened again is exported as a capture: `x` and `o` in Traffic."
        raise DeskUserError(f"{path} is no capture, but exchanges as JSON Lines, for programs to read.", hint)
    if not is_capture:
        raise DeskUserError(f"{path} is not a capture of mcpdesk.", hint)


def _numbered(line: bytes | None, number: int) -> Frame | None:
    """The frame of a line, under the number it has here."""
    found = read_back(line, line_frame)
    return found if found is None or found.number == number else msgspec.structs.replace(found, number=number)


def _bytes_of(line: bytes | None) -> bytes:
    try:
        return b"" if line is None else frame_bytes(line)
    except ValueError:
        return b""


def _rest_of_line(raw: bytes, file: IO[bytes]) -> tuple[int, bytes]:
    """The length of a line of which `raw` was read, and its end. Reads on to the next one."""
    size, tail = len(raw), raw
    while not tail.endswith(b"\n") and (piece := file.readline(_LONG_LINE)):
        size += len(piece)
        tail = tail[-END_BYTES - 2 :] + piece
    return size, tail[-END_BYTES - 2 :]


def _again(file: IO[bytes], offset: int, size: int) -> bytes:
    """A line that was passed over, as a whole."""
    file.seek(offset)
    return file.read(size)
