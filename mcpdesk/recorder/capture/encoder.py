"""Encodes recorded frames and HTTP notes as lines of the capture file, and counts what they take of memory.

Used by one thread at a time. Nothing here touches the disk: lines are queued in a `CaptureFile`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.capture_lines import at_once, encoded, note_line, one_by_one
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_MASK, Ring, Segment, Store, held_bytes
from mcpdesk.recorder.record import (
    END_BYTES,
    KEPT_BYTES,
    ConnectionInfo,
    Frame,
    HttpNote,
    beginning,
)

_FEW = 16
"""Frames encoded at a time where some of them are large."""
MOST_KNOWN = 1_024
"""Notes that are remembered, so that a repeated one is written as a reference to it."""
LARGEST_KNOWN = 4 << 10
"""Bytes of an encoded note beyond which it is not remembered for the next request."""
OBJECT_COST = 3
"""How much more memory headers take as objects than encoded."""
_MOST_PENDING = 64 << 20
"""Bytes of large frames that may wait to be written; of further ones only the beginning is kept."""


class CaptureEncoder:
    """Encodes the frames of one recording, in order."""

    def __init__(self, store: Store, group_bytes: int) -> None:
        """`group_bytes` of frames are encoded in one go."""
        self.file: CaptureFile | None = None
        """Where the lines go; None when no file is written."""
        self.frames = 0
        """How many frames are encoded."""
        self.bytes = 0
        """Bytes of those frames, as they came."""
        self.error = ""
        """What is missing in the file."""
        self.disk_error = ""
        """Why the disk refused the latest lines; empty when it did not."""
        self._store = store
        self._group_bytes = group_bytes
        self._notes = NoteEncoder()

    def add_connections(self, connections: Iterable[ConnectionInfo]) -> None:
        """Write what is known of connections; to be called before their frames are encoded."""
        if self.file is not None:
            for info in connections:
                self.file.add_connection(info)

    def encode(self, stop: int, most_waiting: int) -> None:
        """Encode the frames below `stop`, as long as fewer than `most_waiting` bytes wait for the disk."""
        ring, file = self._store.ring, self.file
        while self.frames < stop and (file is None or file.waiting < most_waiting):
            start = self.frames
            end = min((start | SEGMENT_MASK) + 1, stop)
            if segment := ring.segment(start):
                if not segment.is_whole:
                    end = min(end, start + _FEW)
                self._encode_frames(segment, start, end)
                self._encode_notes(segment, start, end)
            self.frames = end

    def _encode_frames(self, segment: Segment, start: int, stop: int) -> None:
        entries = segment.between(start, stop)
        held = held_bytes(entries)
        self._store.ring.account(start, held + FRAME_COST * len(entries))
        if self.file is not None:
            self._report_loss(start, self.file)
            if segment.is_whole and held <= self._group_bytes:
                groups = at_once(entries, segment.doubtful)
            else:
                groups = one_by_one(entries, segment.doubtful, self._store.waiting)
            for group in groups:
                self.file.add(group)
                self.frames += group.count  # no line is written twice, should an error end this loop
        self.bytes += sum([entry.size for entry in entries])

    def _encode_notes(self, segment: Segment, start: int, stop: int) -> None:
        get, ring = segment.notes.get, self._store.ring
        noted = [(number, note) for number in range(start, stop) if (note := get(number))]
        if noted:
            ring.account(start, FRAME_COST * len(noted))
            self._notes.write(noted, ring, self.file)

    def _report_loss(self, start: int, file: CaptureFile) -> None:
        """Write that the frames before `start` are missing, where they never came this far."""
        if (missing := start - len(file.places)) > 0:
            why = self.disk_error or "the disk is too slow"
            file.add_loss(start, why)
            self.error = f"{missing} frames went unwritten: {why} ({file.path})"
            self.disk_error = ""


class NoteEncoder:
    """Writes the HTTP notes of frames. One that repeats an earlier note becomes a reference to it.

    Clients repeat their request line and headers with every call, and transports hand over one value for all
    of them. Written each time, they would make the capture of small calls about twice as large.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[HttpNote, int]] = {}
        """Notes by their id, with the frame each was written for. Held here, no other one gets that id."""

    def write(self, noted: Iterable[tuple[int, HttpNote]], ring: Ring, file: CaptureFile | None) -> None:
        """Write the notes on frames, and count the memory of their contents."""
        frames_of: dict[int, tuple[HttpNote, list[int]]] = {}
        for frame, note in noted:
            frames_of.setdefault(id(note), (note, []))[1].append(frame)
        for note, frames in frames_of.values():
            known = self._known.get(id(note))
            if known is not None and (file is None or file.add_same(known[1], frames)):
                continue
            first, data = frames[0], encoded(note)
            if file is not None:
                file.add_note(first, note_line(first, data))
                if len(frames) > 1:
                    file.add_same(first, frames[1:])
            if known is None:
                ring.account(first, OBJECT_COST * len(data))
            if known is not None or len(frames) > 1 or len(data) <= LARGEST_KNOWN:
                self._remember(note, first)

    def _remember(self, note: HttpNote, frame: int) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[id(note)] = (note, frame)


class PendingBodies:
    """The bytes of large frames until they are written. Memory keeps only their beginnings and ends."""

    def __init__(self, waiting: dict[int, bytes], body_bytes: int) -> None:
        """`waiting` has the bytes by frame. `body_bytes` of a client's frame are written; 0 means all."""
        self.whole_connections: set[int] = set()
        """Connections whose frames are written whole: those of the desk itself."""
        self._waiting = waiting
        self._body_bytes = max(KEPT_BYTES, body_bytes) if body_bytes else None

    def cut(self, whole: Frame) -> Frame:
        """What stays of a large frame in memory; what else is to be written waits, if there is room."""
        written = self._written(whole)
        if written is not None and self._is_room(len(written)):
            self._waiting[whole.number] = written
        data = whole.data
        return replace(whole, data=beginning(data, KEPT_BYTES), end=whole.end or data[-END_BYTES:])

    def release(self, upto: int) -> None:
        """Forget the bytes of frames below `upto`: they are on disk now, or never will be."""
        for number in [number for number in list(self._waiting) if number < upto]:
            del self._waiting[number]

    def _written(self, frame: Frame) -> bytes | None:
        """As much of a large frame as is written; None when memory keeps all of that."""
        most, data = self._body_bytes, frame.data
        is_whole = most is None or most >= frame.size or frame.connection in self.whole_connections
        # Pairing has to read all of a batch.
        if most is None or is_whole or data[:1] == b"[":
            return data
        return beginning(data, most) if most > KEPT_BYTES else None

    def _is_room(self, size: int) -> bool:
        # A copy: the thread that writes releases some meanwhile.
        return sum(map(len, list(self._waiting.values()))) + size <= _MOST_PENDING
