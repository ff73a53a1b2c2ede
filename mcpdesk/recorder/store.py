"""Reading a recording while it runs: memory first, then what waits to be written, then the capture file.

The writing side is `capture`; it alone changes what this holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mcpdesk.recorder.lines import read_bytes, read_frame, read_note
from mcpdesk.recorder.places import Places
from mcpdesk.recorder.record import ConnectionInfo, Frame, Gap, HttpNote
from mcpdesk.recorder.ring import Ring
from mcpdesk.recorder.source import up_to_most

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
        return read_frame(self.places.frame_line(number))

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
        written = read_bytes(self.places.frame_line(number)) if self.places else b""
        return written or (frame.data if frame else b"")

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame, from memory, else from the file."""
        if segment := self.ring.segment(number):
            note = segment.notes.get(number)
            if note is None and (said := segment.said.get(number)) is not None:
                return HttpNote(number, said.line, said.headers)
            return _decode_note(note) if isinstance(note, bytes) else note
        return read_note(self.places.note_line(number), number) if self.places else None

    @property
    def gaps(self) -> Sequence[Gap]:
        """None: frames that are gone keep their numbers."""
        return ()

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames, empty for those that are gone; as many as can be held."""
        segment = self.ring.segment(start)
        if segment is not None and segment.is_whole:
            found = segment.data(start, stop)
            if len(found) == stop - start:
                return found
        frames = self.frames(start, stop)
        return up_to_most(b"" if frame is None else self._all_of(frame) for frame in frames)

    def _all_of(self, frame: Frame) -> bytes:
        return frame.data if len(frame.data) == frame.size else self.whole(frame.number)
