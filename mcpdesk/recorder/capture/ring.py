"""The newest frames and their HTTP metadata in memory, with a size limit.

Frames are in segments of 256. A reader finds a frame by its number without a lock, and the garbage collector
sees one list instead of up to 256 objects. `Store` reads a running recording: first from memory, then from
data that wait to be written, then from the capture file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from mcpdesk.recorder.capture.capture_lines import line_bytes, line_frame, read_back
from mcpdesk.recorder.capture.line_positions import LinePositions
from mcpdesk.recorder.record import (
    ConnectionInfo,
    Entry,
    Frame,
    FrameRun,
    Gap,
    HeldMark,
    HttpNote,
    RecordedRemark,
    within_search_limit,
)

SEGMENT_BITS: Final = 8
"""Number of low bits of a frame number that contain its position in a segment."""
SEGMENT_FRAMES: Final = 1 << SEGMENT_BITS
SEGMENT_MASK: Final = SEGMENT_FRAMES - 1
FRAME_COST: Final = 320
"""Memory in bytes that a frame needs in addition to its data: numbers, object headers and so on."""
_number = attrgetter("number")


class Segment:
    """Up to 256 successive frames, and their HTTP metadata."""

    __slots__ = ("cost", "entries", "is_complete", "notes", "unchecked")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.unchecked: set[int] = set()
        """Numbers of the frames that may not be JSON."""
        self.notes: dict[int, HttpNote] = {}
        """HTTP metadata by frame number."""
        self.cost = 0
        """Memory in bytes that the encoded frames and metadata of this segment use."""
        self.is_complete = True
        """True if no frame of this segment was cut."""

    def between(self, start: int, stop: int) -> list[Entry]:
        """Return the entries that begin with frame `start` or later, and before frame `stop`."""
        entries = self.entries
        return entries[bisect_left(entries, start, key=_number) : bisect_left(entries, stop, key=_number)]

    def frames(self, start: int, stop: int) -> list[Frame]:
        """Return the existing frames from `start` up to `stop`."""
        selected: list[Frame] = []
        for entry in self._overlapping_entries(start, stop):
            selected += entry.frames(start, stop) if isinstance(entry, FrameRun) else (entry,)
        return selected

    def data(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of these frames that are kept in memory."""
        pieces: list[bytes] = []
        for entry in self._overlapping_entries(start, stop):
            pieces += entry.split(start, stop) if isinstance(entry, FrameRun) else (entry.data,)
        return pieces

    def _overlapping_entries(self, start: int, stop: int) -> list[Entry]:
        """Return the entries with frames from `start` up to `stop`."""
        entries = self.entries
        first = bisect_left(entries, start, key=_number)
        if first and isinstance(entries[first - 1], FrameRun):
            first -= 1
        return entries[first : bisect_left(entries, stop, key=_number)]


def data_bytes(entries: Iterable[Entry]) -> int:
    """Return the size in bytes of the frames' data in memory."""
    return sum([len(entry.data) for entry in entries])


class Ring:
    """Segments by number. When their total size exceeds the limit, the oldest are dropped."""

    def __init__(self, budget: int) -> None:
        """Create an empty ring with a memory limit of `budget` bytes."""
        self.budget = budget
        self.cost = 0
        """Memory in bytes that all segments use."""
        self.segments: dict[int, Segment] = {}
        self._oldest = 0
        """Number of the oldest segment.

        It is stored, because a search in the dictionary is slow after many removals.
        """

    def segment(self, number: int) -> Segment | None:
        """Return the segment of a frame, or None if it was dropped or does not exist yet."""
        return self.segments.get(number >> SEGMENT_BITS)

    def open(self, number: int) -> Segment:
        """Create the segment that begins with frame `number`."""
        segment = self.segments[number >> SEGMENT_BITS] = Segment()
        return segment

    def frame(self, number: int) -> Frame | None:
        """Return a frame, or None if it is not in memory."""
        segment = self.segment(number)
        frames = segment.frames(number, number + 1) if segment else None
        return frames[0] if frames else None

    def account(self, number: int, size: int) -> None:
        """Add `size` bytes to the size of the segment with frame `number`."""
        if segment := self.segment(number):
            segment.cost += size
            self.cost += size

    @property
    def is_over_budget(self) -> bool:
        """True if the oldest segment must be dropped. The newest segment is always kept."""
        return self.cost > self.budget and len(self.segments) > 1

    @property
    def oldest(self) -> int:
        """Number of the first frame of the oldest segment."""
        return self._oldest << SEGMENT_BITS

    @property
    def oldest_stop(self) -> int:
        """Number of the frame after the oldest segment."""
        return (self._oldest + 1) << SEGMENT_BITS

    def drop_oldest(self) -> None:
        """Remove the oldest segment. Its memory is freed when the last reader has released it."""
        self.cost -= self.segments.pop(self._oldest).cost
        self._oldest += 1


class Store:
    """Frames of a running recording, in memory and in the capture file (implements `Source`)."""

    gaps: Sequence[Gap] = ()
    """Always empty, because missing frames keep their numbers."""

    def __init__(self, ring_bytes: int) -> None:
        self.ring = Ring(ring_bytes)
        self.count = 0
        self.connections: dict[int, ConnectionInfo] = {}
        self.marks: list[HeldMark] = []
        self.remarks: list[RecordedRemark] = []
        self.remarks_left_out = 0
        self.waiting: dict[int, bytes] = {}
        """Complete bytes of large frames that are not written yet, by frame number."""
        self.positions: LinePositions | None = None

    @property
    def first(self) -> int:
        """Number of the oldest frame that may be in memory or in the file."""
        return self.ring.oldest if self.positions is None else min(self.ring.oldest, self.positions.first)

    @property
    def removed(self) -> int:
        """Number of frames at the beginning that were removed from disk."""
        return 0 if self.positions is None else self.positions.removed

    def frame(self, number: int) -> Frame | None:
        """Return one frame from memory, or else from the file."""
        frame = self.ring.frame(number)
        if frame is not None or self.positions is None:
            return frame
        return read_back(self.positions.frame_line(number), line_frame)

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Return successive frames. None for each missing one."""
        if segment := self.ring.segment(start):
            in_memory = segment.frames(start, stop)
            if len(in_memory) == stop - start:
                return in_memory
        return [self.frame(number) for number in range(start, stop)]

    def frame_bytes(self, number: int) -> bytes:
        """Return all bytes of a frame, or only the bytes that are still available."""
        if (unwritten_data := self.waiting.get(number)) is not None:
            return unwritten_data
        frame = self.ring.frame(number)
        if frame is not None and (len(frame.data) == frame.size or self.positions is None):
            return frame.data
        written_data = read_back(self.positions.frame_line(number), line_bytes) if self.positions else None
        return written_data or (frame.data if frame else b"")

    def note(self, number: int) -> HttpNote | None:
        """Return the HTTP metadata of a frame from memory, or else from the file."""
        if segment := self.ring.segment(number):
            return segment.notes.get(number)
        return read_back(self.positions.note_line(number), attrgetter("note")) if self.positions else None

    def data(self, start: int, stop: int) -> list[bytes]:
        """Return the bytes of successive frames, at most `MAX_SEARCH_BYTES`. Missing frames are empty."""
        segment = self.ring.segment(start)
        if segment is not None and segment.is_complete:
            pieces = segment.data(start, stop)
            if len(pieces) == stop - start:
                return pieces
        frames = self.frames(start, stop)
        return within_search_limit(b"" if frame is None else self._complete_data(frame) for frame in frames)

    def _complete_data(self, frame: Frame) -> bytes:
        """Return all bytes of a frame, even if memory has only a part of them."""
        return frame.data if len(frame.data) == frame.size else self.frame_bytes(frame.number)
