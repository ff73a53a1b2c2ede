"""Encodes recorded frames and HTTP notes as lines of the capture file, and accounts for their memory.

Used by one thread at a time. Nothing here accesses the disk: lines are queued in a `CaptureFile`.
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
"""Number of frames encoded at a time if some of them are large."""
MOST_KNOWN = 1_024
"""Maximum remembered notes. A repeated note is written as a reference to a remembered one."""
LARGEST_KNOWN = 4 << 10
"""Bytes of an encoded note above which it is not remembered for the next request."""
OBJECT_COST = 3
"""Memory of headers as objects, relative to their encoded size."""
_MOST_PENDING = 64 << 20
"""Maximum bytes of large frames that may wait to be written; only the beginning of further ones is kept."""


class CaptureEncoder:
    """Encodes the frames of one recording, in order."""

    def __init__(self, store: Store, group_bytes: int) -> None:
        """Create an encoder that encodes up to `group_bytes` of frames at once."""
        self.file: CaptureFile | None = None
        """File that receives the lines; None if no file is written."""
        self.frames = 0
        """Number of encoded frames."""
        self.bytes = 0
        """Original size of these frames in bytes."""
        self.error = ""
        """Description of what is missing in the file."""
        self.disk_error = ""
        """Reason why the disk refused the latest lines; empty if it did not."""
        self._store = store
        self._group_bytes = group_bytes
        self._notes = NoteEncoder()

    def add_connections(self, connections: Iterable[ConnectionInfo]) -> None:
        """Write the data of connections. Must be called before their frames are encoded."""
        if self.file is not None:
            for info in connections:
                self.file.add_connection(info)

    def encode(self, stop: int, most_waiting: int) -> None:
        """Encode the frames below `stop`, while fewer than `most_waiting` bytes wait for the disk."""
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
                self.frames += group.count  # at once, so that an error does not repeat lines
        self.bytes += sum([entry.size for entry in entries])

    def _encode_notes(self, segment: Segment, start: int, stop: int) -> None:
        get, ring = segment.notes.get, self._store.ring
        noted = [(number, note) for number in range(start, stop) if (note := get(number))]
        if noted:
            ring.account(start, FRAME_COST * len(noted))
            self._notes.write(noted, ring, self.file)

    def _report_loss(self, start: int, file: CaptureFile) -> None:
        """Write that frames before `start` are missing, if they were dropped before they could be encoded."""
        if (missing := start - len(file.places)) > 0:
            why = self.disk_error or "the disk is too slow"
            file.add_loss(start, why)
            self.error = f"{missing} frames were not written: {why} ({file.path})"
            self.disk_error = ""


class NoteEncoder:
    """Writes the HTTP notes of frames. A repeated note is written as a reference to the earlier one.

    Clients repeat their request line and headers with every call, and transports pass the same object for all
    of them. Writing it each time would roughly double the size of captures of small calls.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[HttpNote, int]] = {}
        """Notes by object id, with the frame each was written for. They are held, so that the id is not
        reused."""

    def write(self, noted: Iterable[tuple[int, HttpNote]], ring: Ring, file: CaptureFile | None) -> None:
        """Write the notes on frames, and account for the memory of their contents."""
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
    """Bytes of large frames until they are written. Memory keeps only their beginnings and ends."""

    def __init__(self, waiting: dict[int, bytes], body_bytes: int) -> None:
        """`waiting` holds the bytes by frame.

        At most `body_bytes` of a client's frame are written; 0 means all.
        """
        self.whole_connections: set[int] = set()
        """Connections whose frames are written in full: those of the desk itself."""
        self._waiting = waiting
        self._body_bytes = max(KEPT_BYTES, body_bytes) if body_bytes else None

    def cut(self, whole: Frame) -> Frame:
        """Return the part of a large frame that stays in memory; queue the rest if there is room."""
        written = self._written(whole)
        if written is not None and self._is_room(len(written)):
            self._waiting[whole.number] = written
        data = whole.data
        return replace(whole, data=beginning(data, KEPT_BYTES), end=whole.end or data[-END_BYTES:])

    def release(self, upto: int) -> None:
        """Forget the bytes of frames below `upto`, which are on disk now or never will be."""
        for number in [number for number in list(self._waiting) if number < upto]:
            del self._waiting[number]

    def _written(self, frame: Frame) -> bytes | None:
        """Return the bytes of a large frame to write; None if memory already has all of them."""
        most, data = self._body_bytes, frame.data
        is_whole = most is None or most >= frame.size or frame.connection in self.whole_connections
        # Pairing must read all of a batch.
        if most is None or is_whole or data[:1] == b"[":
            return data
        return beginning(data, most) if most > KEPT_BYTES else None

    def _is_room(self, size: int) -> bool:
        # A copy, because the writer thread may release some in the meantime.
        return sum(map(len, list(self._waiting.values()))) + size <= _MOST_PENDING
