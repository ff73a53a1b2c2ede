"""A capture file opened from disk, looked at like a running recording. Only places stay in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.lines import Line, line_bytes, line_frame, line_note, read_line
from mcpdesk.recorder.places import Places, part_path
from mcpdesk.recorder.record import ConnectionInfo, Frame, HttpNote

_LONGEST_GAP = 10_000_000


class Archive:
    """Implements `Source` over the parts of a capture."""

    def __init__(self, path: Path) -> None:
        """Find every line of the capture that begins at `path`, its further parts included.

        Raises: DeskUserError when there is no capture.
        """
        self.path = path
        self.connections: dict[int, ConnectionInfo] = {}
        self.unreadable = 0
        """Lines that are no lines of a capture: the last one of a killed process, or damage."""
        self._places = Places()
        self._last = 0.0
        """Unix time in seconds of the last frame."""
        for part, at in enumerate(_parts(path)):
            self._places.parts.append(at)
            self._read_part(part, at)
        self._close_connections()
        self.index = Index(self)

    @property
    def count(self) -> int:
        """Frames up to the last one found; those before the first part's first are gone."""
        return len(self._places)

    def frame(self, number: int) -> Frame | None:
        """One frame, read from disk."""
        line = self._places.frame_line(number)
        return None if line is None else line_frame(read_line(line))

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Successive frames, read from disk."""
        return [self.frame(number) for number in range(start, stop)]

    def whole(self, number: int) -> bytes:
        """All bytes of a frame."""
        line = self._places.frame_line(number)
        return b"" if line is None else line_bytes(read_line(line))

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame."""
        line = self._places.note_line(number)
        return None if line is None else line_note(read_line(line), number)

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames."""
        return [self.whole(number) for number in range(start, stop)]

    def close(self) -> None:
        """Let go of the file."""
        self._places.close()

    def _read_part(self, part: int, path: Path) -> None:
        offset = 0
        with path.open("rb") as lines:
            for raw in lines:
                size = len(raw)
                try:
                    line = read_line(raw)
                    run = [len(each) for each in islice(lines, line.run) if self._is_whole(each)]
                    size += sum(run)
                    self._place(line, part, offset, len(run) if line.run else 1)
                except ValueError:
                    self.unreadable += 1
                offset += size

    def _is_whole(self, line: bytes) -> bool:
        """Whether a line of a run was not cut off; counts those that were."""
        is_whole = line.endswith(b"\n")
        self.unreadable += not is_whole
        return is_whole

    def _place(self, line: Line, part: int, offset: int, count: int) -> None:
        """Remember where a line of one kind or another is; if one of frames, of `count`."""
        if line.connection is not None:
            self.connections[line.connection.number] = line.connection
        elif line.note is not None:
            self._places.set_note(line.note.frame, part, offset)
        elif line.same:
            self._places.share_note(line.same[0], line.same[1:])
        elif line.n >= 0:
            gap = line.n - len(self._places)
            if not 0 <= gap <= _LONGEST_GAP:
                raise ValueError(f"frame {line.n} cannot follow {len(self._places) - 1}")
            line_bytes(line)
            self._last = line.t
            self._places.skip_frames(gap)
            self._places.add(count, part, offset, is_run=line.run > 0)

    def _close_connections(self) -> None:
        """What was open when the file ends is closed there: nothing more will come."""
        for number, info in self.connections.items():
            if info.closed is None:
                self.connections[number] = msgspec.structs.replace(info, closed=max(self._last, info.opened))


def _parts(path: Path) -> Iterator[Path]:
    """The parts of a capture, first to last."""
    _check(path)
    part, at = 1, path
    while at.is_file():
        yield at
        part += 1
        at = part_path(path, part)


def _check(path: Path) -> None:
    """Refuse what is no capture, before reading all of it."""
    hint = "Captures lie where `mcpdesk settings` says, and end in .jsonl."
    try:
        with path.open("rb") as file:
            start = file.readline(4096)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be read: {error.strerror}.", hint) from None
    try:
        is_capture = read_line(start).capture is not None
    except ValueError:
        is_capture = False
    if not is_capture:
        raise DeskUserError(f"{path} is not a capture of mcpdesk.", hint)
