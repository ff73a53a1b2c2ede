"""Reading a recording while it runs: memory first, then what waits to be written, then the capture file.

The writing side is `capture`; it alone changes what this holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mcpdesk.recorder.lines import line_bytes, line_frame, line_note, read_line
from mcpdesk.recorder.places import Places
from mcpdesk.recorder.record import ConnectionInfo, Frame, HttpNote
from mcpdesk.recorder.ring import Ring

_decode_note = msgspec.json.Decoder(HttpNote).decode


class Store:
    """Implements `Source` over a ring and, where one is written, a capture file."""

    def __init__(self, ring_bytes: int) -> None:
        self.ring = Ring(ring_bytes)
        self.count = 0
        self.connections: dict[int, ConnectionInfo] = {}
        self.waiting: dict[int, bytes] = {}
        """Large frames not written yet, whole."""
        self.places: Places | None = None

    def frame(self, number: int) -> Frame | None:
        """One frame from memory, else from the file."""
        frame = self.ring.frame(number)
        if frame is not None or self.places is None:
            return frame
        line = self.places.frame_line(number)
        return None if line is None else line_frame(read_line(line))

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Successive frames; None for those that are gone."""
        if segment := self.ring.segment(start):
            found = segment.frames(start, stop)
            if len(found) == stop - start:
                return found
        return [self.frame(number) for number in range(start, stop)]

    def whole(self, number: int) -> bytes:
        """All bytes of a frame, or as many as were kept."""
        if (waiting := self.waiting.get(number)) is not None:
            return waiting
        frame = self.ring.frame(number)
        if frame is not None and (len(frame.data) == frame.size or self.places is None):
            return frame.data
        line = self.places.frame_line(number) if self.places else None
        if line is not None:
            return line_bytes(read_line(line))
        return frame.data if frame else b""

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame, from memory, else from the file."""
        if segment := self.ring.segment(number):
            note = segment.notes.get(number)
            if note is None and (said := segment.said.get(number)) is not None:
                return HttpNote(number, said.line, said.headers)
            return _decode_note(note) if isinstance(note, bytes) else note
        line = self.places.note_line(number) if self.places else None
        return None if line is None else line_note(read_line(line), number)

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames, empty for those that are gone."""
        segment = self.ring.segment(start)
        if segment is not None and segment.is_whole:
            found = segment.data(start, stop)
            if len(found) == stop - start:
                return found
        return [b"" if frame is None else self._all_of(frame) for frame in self.frames(start, stop)]

    def _all_of(self, frame: Frame) -> bytes:
        return frame.data if len(frame.data) == frame.size else self.whole(frame.number)
