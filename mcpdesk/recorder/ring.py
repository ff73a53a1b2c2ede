"""The newest frames and notes in memory, bounded in bytes.

Frames lie in segments of 128, so that a reader finds one by its number without a lock, and the collector sees
one list where there are 128 untracked records.
"""

from __future__ import annotations

from typing import Final

from mcpdesk.recorder.record import Frame, HttpNote, Said

SEGMENT_BITS: Final = 7
SEGMENT_FRAMES: Final = 1 << SEGMENT_BITS
SEGMENT_MASK: Final = SEGMENT_FRAMES - 1
FRAME_COST: Final = 256
"""Bytes a frame costs besides its data: record, numbers, object headers, what the allocator adds."""


class Segment:
    """Up to 128 successive frames and the encoded notes on them."""

    __slots__ = ("cost", "doubtful", "frames", "fresh", "is_whole", "lines", "notes", "said")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.doubtful: set[int] = set()
        """Numbers of the frames that are not known to be JSON."""
        self.notes: dict[int, bytes | HttpNote] = {}
        self.said: dict[int, Said] = {}
        """Notes that share their contents with others."""
        self.cost = 0
        self.fresh = 0
        """Bytes it held when it was full."""
        self.lines: tuple[int, int, bytes] | None = None
        """Of a full segment, for the capture file: the first frame, bytes of the frames, and their lines."""
        self.is_whole = True
        """Whether no frame here was cut short."""


class Ring:
    """Segments by number; the oldest go when the accounted bytes pass the budget."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.cost = 0
        self.segments: dict[int, Segment] = {}

    def segment(self, number: int) -> Segment | None:
        """The segment that holds a frame number, or None when it is gone or yet to come."""
        return self.segments.get(number >> SEGMENT_BITS)

    def open(self, number: int) -> Segment:
        """A new segment, beginning with frame `number`."""
        segment = self.segments[number >> SEGMENT_BITS] = Segment()
        return segment

    def frame(self, number: int) -> Frame | None:
        """The frame of that number while it is in memory."""
        segment = self.segment(number)
        if segment is None or (at := number & SEGMENT_MASK) >= len(segment.frames):
            return None
        return segment.frames[at]

    def account(self, number: int, size: int) -> None:
        """Count `size` more bytes towards the segment of `number`."""
        if segment := self.segment(number):
            segment.cost += size
            self.cost += size

    @property
    def is_over(self) -> bool:
        """Whether the oldest segment has to go; the newest always stays."""
        return self.cost > self.budget and len(self.segments) > 1

    @property
    def oldest_stop(self) -> int:
        """The number behind the last frame of the segment to go next."""
        return (next(iter(self.segments)) + 1) << SEGMENT_BITS

    def drop_oldest(self) -> Segment:
        """Let one segment go; its frames leave memory with the last reference to it."""
        oldest = self.segments.pop(next(iter(self.segments)))
        self.cost -= oldest.cost
        return oldest
