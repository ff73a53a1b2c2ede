"""Encoding of recorded frames and HTTP metadata as lines of the capture file.

The encoder also counts the memory that frames and HTTP metadata use. Only one thread at a time may use the
encoder. It does not access the disk; lines are queued in a `CaptureFile`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.capture_lines import encoded, in_one_group, in_single_groups, note_line
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_MASK, Ring, Segment, Store, data_bytes
from mcpdesk.recorder.record import (
    END_BYTES,
    MAX_KEPT_BYTES,
    ConnectionInfo,
    Frame,
    HttpNote,
    beginning,
)

_LARGE_BATCH_FRAMES = 16
"""Number of frames that are encoded at a time if some are large."""
MAX_KNOWN_HEADERS = 1_024
"""Maximum number of remembered HTTP metadata objects.

If one of them occurs again, only a reference is written.
"""
MAX_KNOWN_BYTES = 4 << 10
"""Maximum size in bytes of encoded HTTP metadata that is remembered at its first occurrence."""
OBJECT_COST = 3
"""Memory of headers as Python objects, as a multiple of their encoded size."""
_MAX_PENDING_BYTES = 64 << 20
"""Maximum total size in bytes of large frames that wait to be written.

Above this limit, only the beginning and the end of a further large frame are kept.
"""


class CaptureEncoder:
    """Encodes the frames of one recording, in order."""

    def __init__(self, store: Store, group_bytes: int) -> None:
        """Create an encoder. Frames whose total size is at most `group_bytes` are encoded in one step."""
        self.file: CaptureFile | None = None
        """Destination file of the lines, or None."""
        self.frames = 0
        """Number of encoded frames."""
        self.bytes = 0
        """Total size in bytes of these frames, before they were encoded."""
        self.error = ""
        """Reason why the file is incomplete, or "" if it is complete."""
        self.disk_error = ""
        """Reason why the disk refused the last lines, or "" if it accepted them."""
        self._store = store
        self._group_bytes = group_bytes
        self._notes = NoteEncoder()

    def add_connections(self, connections: Iterable[ConnectionInfo]) -> None:
        """Write the data of connections. Call this method before their frames are encoded."""
        if self.file is not None:
            for info in connections:
                self.file.add_connection(info)

    def encode(self, stop: int, max_waiting_bytes: int) -> None:
        """Encode the frames before `stop`, while fewer than `max_waiting_bytes` bytes wait for the disk."""
        ring, file = self._store.ring, self.file
        while self.frames < stop and (file is None or file.waiting < max_waiting_bytes):
            start = self.frames
            end = min((start | SEGMENT_MASK) + 1, stop)
            if segment := ring.segment(start):
                if not segment.is_complete:
                    end = min(end, start + _LARGE_BATCH_FRAMES)
                self._encode_frames(segment, start, end)
                self._encode_notes(segment, start, end)
            self.frames = end

    def _encode_frames(self, segment: Segment, start: int, stop: int) -> None:
        """Count the memory of frames of one segment, and queue their lines."""
        entries = segment.between(start, stop)
        size = data_bytes(entries)
        self._store.ring.account(start, size + FRAME_COST * len(entries))
        if self.file is not None:
            self._report_loss(start, self.file)
            if segment.is_complete and size <= self._group_bytes:
                groups = in_one_group(entries, segment.unchecked)
            else:
                groups = in_single_groups(entries, segment.unchecked, self._store.waiting)
            for group in groups:
                self.file.add(group)
                self.frames += group.count  # counted before the next step, so that an error repeats no lines
        self.bytes += sum([entry.size for entry in entries])

    def _encode_notes(self, segment: Segment, start: int, stop: int) -> None:
        """Count the memory of the HTTP metadata of frames of one segment, and queue their lines."""
        get, ring = segment.notes.get, self._store.ring
        notes = [(number, note) for number in range(start, stop) if (note := get(number))]
        if notes:
            ring.account(start, FRAME_COST * len(notes))
            self._notes.write(notes, ring, self.file)

    def _report_loss(self, start: int, file: CaptureFile) -> None:
        """Write a line about the frames before `start` that were dropped and never encoded, if any."""
        if (missing := start - len(file.positions)) > 0:
            reason = self.disk_error or "the disk is too slow"
            file.add_loss(start, reason)
            self.error = f"{missing} frames were not written: {reason} ({file.path})"
            self.disk_error = ""


class NoteEncoder:
    """Writes the HTTP metadata of frames. Repeated metadata is written as a reference to an earlier frame.

    Clients repeat request line and headers with every call, and transports use the same object for all these
    calls. References make captures of small calls about half as large.
    """

    def __init__(self) -> None:
        self._written_notes: dict[int, tuple[HttpNote, int]] = {}
        """Metadata and the frame for which it was written, by object id.

        The reference to the object prevents Python from reusing the id.
        """

    def write(self, notes: Iterable[tuple[int, HttpNote]], ring: Ring, file: CaptureFile | None) -> None:
        """Write the HTTP metadata of frames, and count the memory that they use."""
        frames_of: dict[int, tuple[HttpNote, list[int]]] = {}
        for frame, note in notes:
            frames_of.setdefault(id(note), (note, []))[1].append(frame)
        for note, frames in frames_of.values():
            written_note = self._written_notes.get(id(note))
            if written_note is not None and (file is None or file.add_same(written_note[1], frames)):
                continue
            first, data = frames[0], encoded(note)
            if file is not None:
                file.add_note(first, note_line(first, data))
                if len(frames) > 1:
                    file.add_same(first, frames[1:])
            if written_note is None:
                ring.account(first, OBJECT_COST * len(data))
            # A large note is remembered only if it has occurred more than once.
            if written_note is not None or len(frames) > 1 or len(data) <= MAX_KNOWN_BYTES:
                self._remember(note, first)

    def _remember(self, note: HttpNote, frame: int) -> None:
        """Store the frame for which metadata was written. If too many are stored, forget all others."""
        if len(self._written_notes) >= MAX_KNOWN_HEADERS:
            self._written_notes.clear()
        self._written_notes[id(note)] = (note, frame)


class PendingBodies:
    """Complete bytes of large frames until they are written.

    Afterwards only their beginnings and ends stay in memory.
    """

    def __init__(self, waiting: dict[int, bytes], body_bytes: int) -> None:
        """Create an empty queue that keeps the complete bytes in `waiting`, by frame number.

        At most `body_bytes` bytes of a client's frame are written. 0 means all.
        """
        self.uncut_connections: set[int] = set()
        """Connections of the desk itself. Their frames are always written completely."""
        self._waiting = waiting
        self._body_bytes = max(MAX_KEPT_BYTES, body_bytes) if body_bytes else None

    def cut(self, frame: Frame) -> Frame:
        """Return the part of a large frame that stays in memory.

        The bytes to write are queued if they are within the memory limit.
        """
        data_to_write = self._data_to_write(frame)
        if data_to_write is not None and self._has_room(len(data_to_write)):
            self._waiting[frame.number] = data_to_write
        data = frame.data
        return replace(frame, data=beginning(data, MAX_KEPT_BYTES), end=frame.end or data[-END_BYTES:])

    def release(self, stop: int) -> None:
        """Release the bytes of frames before `stop`, which are on disk or will never be written."""
        for number in [number for number in list(self._waiting) if number < stop]:
            del self._waiting[number]

    def _data_to_write(self, frame: Frame) -> bytes | None:
        """Return the bytes to write of a large frame, or None if its part in memory is enough."""
        max_bytes, data = self._body_bytes, frame.data
        if max_bytes is None or frame.size <= max_bytes or frame.connection in self.uncut_connections:
            return data
        if data[:1] == b"[":
            # All bytes of a JSON-RPC batch are needed to match its requests with their responses.
            return data
        return beginning(data, max_bytes) if max_bytes > MAX_KEPT_BYTES else None

    def _has_room(self, size: int) -> bool:
        """Return True if `size` more bytes may wait to be written."""
        # Copied, because the writer thread may release entries at the same time.
        return sum(map(len, list(self._waiting.values()))) + size <= _MAX_PENDING_BYTES
