"""Frames of cores in other processes. The frames get new numbers in their order of arrival."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import Lock
from typing import Final, TypeVar

from msgspec import structs

from mcpdesk.errors import DeskUserError
from mcpdesk.link.attach_messages import TrafficBatch
from mcpdesk.link.values import OWN_BITS
from mcpdesk.link.waiting import is_on_event_loop, result_of
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_BITS, SEGMENT_MASK, Store
from mcpdesk.recorder.record import MAX_CONNECTIONS, MAX_REMARKS, Gap, add_gap, remark_limit

MAX_HELD_BYTES = 64 << 20
"""Maximum size in bytes of the frames in memory."""
MAX_FETCHED_BYTES = 64 << 20
"""Maximum size in bytes of fetched large frames in memory. The newest frame is always kept."""
SEARCH_REQUEST_BYTES = 8 << 20
"""Size in bytes of the large frames that a search requests at a time."""
EPOCH_BITS: Final = OWN_BITS
"""Number of bits for numbers within one core. The bits above them are the epoch, the number of the core."""
OWN_MASK: Final = (1 << EPOCH_BITS) - 1
"""Bits of a number that its core itself uses."""
Sent = TypeVar("Sent")


class TrafficCopy(Store):
    """Newest frames of all cores. A core's connection numbers are above those of earlier cores."""

    def __init__(self, fetch: Callable[[int, int], Future[bytes] | None]) -> None:
        """`fetch` requests all bytes of a large frame, by epoch and the frame number at the core.

        It returns None if the core has ended.
        """
        super().__init__(MAX_HELD_BYTES)
        self.gaps: list[Gap] = []
        self._fetch = fetch
        self._cut_frames: dict[int, tuple[int, int]] = {}
        """For each frame that is incomplete in memory: the epoch, and the number that the frame has at its
        core."""
        self._fetched: OrderedDict[int, bytes] = OrderedDict()
        """Complete frames that were fetched. The frame that was used last is at the end."""
        self._fetched_bytes = 0
        """Total size of `_fetched` in bytes."""
        self._pending: dict[int, Future[bytes]] = {}
        """Requests for complete frames, without an answer so far."""
        self._unavailable: set[int] = set()
        """Incomplete frames that can no longer be fetched."""
        self._lock = Lock()
        """Lock for the fetched frames. It is held only briefly."""
        self._unkept_remarks: dict[int, int] = {}
        """Number of remarks that each core did not keep, by epoch."""
        self._dropped_remarks = 0
        """Total number of remarks that this copy does not keep."""
        self._next_numbers: dict[int, int] = {}
        """Number, at the core, of the frame that is expected next, by epoch."""
        self._marks_seen: dict[int, int] = {}
        """Number of marks that each core has sent, by epoch."""
        self._remarks_seen: dict[int, int] = {}
        """Number of remarks that each core has sent, by epoch."""

    def add_batch(self, batch: TrafficBatch, epoch: int, core: str = "") -> int:
        """Store a batch. Return the number of frames that are missing before it.

        Frames, marks and remarks that were received already are skipped.
        """
        offset = epoch << EPOCH_BITS
        for info in batch.connections:
            number = info.number + offset
            self.connections[number] = structs.replace(info, number=number, core=core)
        self._forget_connections()
        for mark in _unseen(self._marks_seen, epoch, batch.first_mark, batch.marks):
            self.marks.append(structs.replace(mark, connection=mark.connection + offset))
        for remark in _unseen(self._remarks_seen, epoch, batch.first_remark, batch.remarks):
            if len(self.remarks) < remark_limit(remark, MAX_REMARKS):
                self.remarks.append(structs.replace(remark, connection=remark.connection + offset))
            else:
                self._dropped_remarks += 1
        self._unkept_remarks[epoch] = max(self._unkept_remarks.get(epoch, 0), batch.remarks_left_out)
        self.remarks_left_out = self._dropped_remarks + sum(self._unkept_remarks.values())
        next_number = self._next_numbers.get(epoch, 0)
        frames = [frame for frame in batch.frames if frame.number >= next_number]
        missing = frames[0].number - next_number if frames else 0
        if missing:
            reason = batch.why or "they were deleted before they could be read"
            add_gap(self.gaps, Gap(self.count, missing, reason))
        for frame in frames:
            number = self.count
            renumbered = structs.replace(frame, number=number, connection=frame.connection + offset)
            segment = self.ring.segment(number) if number & SEGMENT_MASK else self.ring.open(number)
            assert segment is not None
            segment.entries.append(renumbered)
            if len(frame.data) != frame.size:
                segment.is_complete = False
                self._cut_frames[number] = epoch, frame.number
            if (note := batch.notes.get(frame.number)) is not None:
                segment.notes[number] = note
            self.ring.account(number, len(frame.data) + FRAME_COST)
            self.count = number + 1
        if frames:
            self._next_numbers[epoch] = frames[-1].number + 1
            self._drop_oldest_frames()
        return missing

    def close_all(self, epoch: int) -> None:
        """Mark all connections of a core as closed."""
        now = time.time()
        for number, info in list(self.connections.items()):
            if info.closed is None and number >> EPOCH_BITS == epoch:
                self.connections[number] = structs.replace(info, closed=max(now, info.opened))

    def forget(self, epoch: int) -> None:
        """Remove the connections of a core that ended long ago."""
        for number in [number for number in list(self.connections) if number >> EPOCH_BITS == epoch]:
            del self.connections[number]
        for numbers in (self._next_numbers, self._marks_seen, self._remarks_seen):
            numbers.pop(epoch, None)

    def frame_bytes(self, number: int) -> bytes:
        """Return all bytes of a frame, or only the available ones.

        A worker thread waits a short time for the core. A thread with an event loop does not wait: it only
        sends a request, and the frame is complete when the answer has arrived.
        """
        frame = self.frame(number)
        if frame is None:
            return b""
        future = self._request_bytes(number)
        if future is not None and not is_on_event_loop():
            with suppress(TimeoutError, ValueError, DeskUserError):
                return result_of(future) or frame.data
        with self._lock:
            data = self._fetched.get(number)
            if data is not None:
                self._fetched.move_to_end(number)
        return data or frame.data

    def fetched_until(self, start: int, stop: int) -> int:
        """Return the first frame of a range that is incomplete, or `stop`. Never waits.

        Incomplete frames are requested, a few megabytes at a time.
        """
        first_incomplete, requested_bytes = stop, 0
        for number in range(start, stop):
            if number in self._cut_frames and self._request_bytes(number) is not None:
                first_incomplete = min(first_incomplete, number)
                frame = self.ring.frame(number)
                requested_bytes += frame.size if frame is not None else 0
                if requested_bytes >= SEARCH_REQUEST_BYTES:
                    break
        return first_incomplete

    def _request_bytes(self, number: int) -> Future[bytes] | None:
        """Request all bytes of an incomplete frame. None if it is complete or can no longer be fetched."""
        with self._lock:
            origin = self._cut_frames.get(number)
            if origin is None or number in self._fetched or number in self._unavailable:
                return None
            if (future := self._pending.get(number)) is not None:
                return future
            if (future := self._fetch(*origin)) is None:
                self._unavailable.add(number)
                return None
            self._pending[number] = future
        future.add_done_callback(partial(self._store_fetched, number))
        return future

    def _store_fetched(self, number: int, future: Future[bytes]) -> None:
        """Store a fetched frame, and discard those that were not used for the longest time."""
        data = b"" if future.exception() is not None else future.result()
        with self._lock:
            self._pending.pop(number, None)
            if number not in self._cut_frames:
                return
            if not data:
                self._unavailable.add(number)
                return
            self._fetched[number] = data
            self._fetched_bytes += len(data)
            while self._fetched_bytes > MAX_FETCHED_BYTES and len(self._fetched) > 1:
                self._fetched_bytes -= len(self._fetched.popitem(last=False)[1])

    def _forget_connections(self) -> None:
        """If there are too many connections, forget those that closed first."""
        if len(self.connections) <= MAX_CONNECTIONS + (MAX_CONNECTIONS >> 4):
            return
        closed = (number for number, info in list(self.connections.items()) if info.closed is not None)
        for number in list(islice(closed, len(self.connections) - MAX_CONNECTIONS)):
            del self.connections[number]

    def _drop_oldest_frames(self) -> None:
        """If there are too many frames, drop the oldest."""
        if not self.ring.is_over_budget:
            return
        while self.ring.is_over_budget:
            self.ring.drop_oldest()
        oldest = next(iter(self.ring.segments)) << SEGMENT_BITS
        with self._lock:
            while self._cut_frames and (first_cut := next(iter(self._cut_frames))) < oldest:
                del self._cut_frames[first_cut]
                self._unavailable.discard(first_cut)
                self._fetched_bytes -= len(self._fetched.pop(first_cut, b""))


def _unseen(counts: dict[int, int], epoch: int, first: int, values: tuple[Sent, ...]) -> tuple[Sent, ...]:
    """Return the values that a core sent for the first time, and count them.

    If values before `first` are missing, return no values. The screen then joins again, and the core sends
    all values.
    """
    expected = counts.get(epoch, 0)
    if first > expected:
        return ()
    counts[epoch] = max(expected, first + len(values))
    return values[expected - first :]
