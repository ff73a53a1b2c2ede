"""Frames of cores in other processes, numbered anew in the order in which they came."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from msgspec import structs

from mcpdesk.link.attach_messages import TrafficBatch
from mcpdesk.link.values import OWN_BITS
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_BITS, SEGMENT_MASK, Store
from mcpdesk.recorder.record import MOST_CONNECTIONS, MOST_REMARKS, Gap, keep_gap

HELD_BYTES = 64 << 20
"""Bytes of frames that stay in memory."""
EPOCH: Final = OWN_BITS
"""Bits of the numbers of one core; how many cores there were before it is above them."""
OWN: Final = (1 << EPOCH) - 1


class TrafficCopy(Store):
    """The newest frames of all cores; the connections of each have numbers above those of the ones before."""

    def __init__(self, fetch: Callable[[int, int], bytes]) -> None:
        """`fetch` gets all bytes of a large frame, by epoch and the core's number."""
        super().__init__(HELD_BYTES)
        self.gaps: list[Gap] = []
        self._fetch = fetch
        self._cut: dict[int, tuple[int, int]] = {}
        """Of frames in memory that are not whole: epoch and number there."""
        self._next: dict[int, int] = {}
        """By epoch, the number there of the frame that would follow the last."""

    def take(self, news: TrafficBatch, epoch: int, replica: str = "") -> int:
        """Keep what a core sent, and return how many frames are missing before it. What came is left out."""
        above = epoch << EPOCH
        for info in news.connections:
            number = info.number + above
            self.connections[number] = structs.replace(info, number=number, replica=replica)
        self._forget_connections()
        self.marks += (structs.replace(mark, connection=mark.connection + above) for mark in news.marks)
        room = MOST_REMARKS - len(self.remarks)
        self.remarks += (
            structs.replace(each, connection=each.connection + above) for each in news.remarks[:room]
        )
        due = self._next.get(epoch, 0)
        frames = [frame for frame in news.frames if frame.number >= due]
        missing = frames[0].number - due if frames else 0
        if missing:
            keep_gap(
                self.gaps, Gap(self.count, missing, news.why or "they were cut before they could be read")
            )
        for frame in frames:
            number = self.count
            kept = structs.replace(frame, number=number, connection=frame.connection + above)
            segment = self.ring.segment(number) if number & SEGMENT_MASK else self.ring.open(number)
            assert segment is not None
            segment.entries.append(kept)
            if len(frame.data) != frame.size:
                segment.is_whole = False
                self._cut[number] = epoch, frame.number
            if (note := news.notes.get(frame.number)) is not None:
                segment.notes[number] = note
            self.ring.account(number, len(frame.data) + FRAME_COST)
            self.count = number + 1
        if frames:
            self._next[epoch] = frames[-1].number + 1
            self._drop()
        return missing

    def close_all(self, epoch: int) -> None:
        """Note that every connection of a core has ended."""
        now = time.time()
        for number, info in list(self.connections.items()):
            if info.closed is None and number >> EPOCH == epoch:
                self.connections[number] = structs.replace(info, closed=max(now, info.opened))

    def forget(self, epoch: int) -> None:
        """Remove the connections of a core that ended long ago."""
        for number in [number for number in list(self.connections) if number >> EPOCH == epoch]:
            del self.connections[number]
        self._next.pop(epoch, None)

    def whole(self, number: int) -> bytes:
        """All bytes of a frame; what is kept of it when the core is not there any more."""
        frame = self.frame(number)
        if frame is None:
            return b""
        at = self._cut.get(number)
        return frame.data if at is None else self._fetch(*at) or frame.data

    def _forget_connections(self) -> None:
        """Forget the connections that closed first, if there are too many."""
        if len(self.connections) <= MOST_CONNECTIONS + (MOST_CONNECTIONS >> 4):
            return
        closed = (number for number, info in list(self.connections.items()) if info.closed is not None)
        for number in list(islice(closed, len(self.connections) - MOST_CONNECTIONS)):
            del self.connections[number]

    def _drop(self) -> None:
        """Let the oldest frames go that are too many."""
        if not self.ring.is_over:
            return
        while self.ring.is_over:
            self.ring.drop_oldest()
        oldest = next(iter(self.ring.segments)) << SEGMENT_BITS
        while self._cut and (first := next(iter(self._cut))) < oldest:
            del self._cut[first]
