"""The recording of a running core: the newest frames in memory, every frame in the capture file.

Transports hand frames over on the hot path; a thread of its own writes them, a few segments at a time, at
most a quarter of a second later, and lets the oldest go from memory. Who fills a segment makes its lines at
once, while they are in the processor's cache: a thread competing for the interpreter would take three times
as long. Where the file cannot be written, recording goes on in memory and `error` says why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep, time
from typing import TYPE_CHECKING

from mcpdesk.protocol.series import joined
from mcpdesk.recorder.capture_file import CaptureFile
from mcpdesk.recorder.groups import GROUP_BYTES, make_a_run
from mcpdesk.recorder.lines import encoded, note_line
from mcpdesk.recorder.record import (
    END_BYTES,
    KEPT_BYTES,
    ConnectionInfo,
    Direction,
    Entry,
    Frame,
    HttpNote,
    Run,
    Said,
    beginning,
)
from mcpdesk.recorder.ring import FRAME_COST, SEGMENT_BITS, SEGMENT_FRAMES, SEGMENT_MASK, Segment
from mcpdesk.recorder.shared_notes import SharedNotes
from mcpdesk.recorder.store import Store

if TYPE_CHECKING:
    from mcpdesk.recorder.index import Index

BATCH_S = 0.2
_TURN = 2
"""Segments written between two pauses: requests under way are held up by those, not by all there are."""
_PAUSE_S = 0.0025
_PATIENCE_S = 0.1
"""How long to go on with pauses."""
_WAKE_BYTES = 4 << 20
_WAITING_BYTES = 64 << 20
"""Bytes of large frames that may wait to be written; beyond them only a frame's beginning is kept."""
_BACKLOG_BYTES = 128 << 20
"""Bytes nobody has settled; beyond them the oldest frames go unwritten, and `error` says so."""
_CONNECTIONS = 20_000
"""Connections remembered; the longest closed are forgotten first."""


class Recording:
    """Implements `Recorder`."""

    def __init__(
        self,
        path: Path | None,
        ring_bytes: int = 64 << 20,
        max_file_bytes: int | None = None,
        secret_headers: frozenset[str] = frozenset(),
        body_bytes: int = 0,
    ) -> None:
        """`body_bytes` of a client's frame are written, and never less than stay in memory; 0: all."""
        self.path = path
        self.error = ""
        self.settled_bytes = 0
        """Bytes of the frames the writer has come to, a moment after they came."""
        self._max_file_bytes = max_file_bytes
        self._group_bytes = min(GROUP_BYTES, (max_file_bytes or GROUP_BYTES << 3) >> 3)
        self._body_bytes = max(KEPT_BYTES, body_bytes) if body_bytes else None
        self._desk: set[int] = set()
        """Connections whose frames are written whole: what the desk itself calls for."""
        self._store = Store(ring_bytes)
        self._secret_headers = secret_headers
        self._file: CaptureFile | None = None
        self._segment: Segment
        self._append: Callable[[Entry], None]
        self._lock = Lock()
        self._fresh = 0
        self._settled = self._claimed = self._gathered = 0
        self._waiting_bytes = 0
        self._new_connections: dict[int, ConnectionInfo] = {}
        """What became known of connections, the newest of each: short sessions are told of once."""
        self._closed: deque[int] = deque()
        """Connections that ended, in this order."""
        self._new_notes: deque[HttpNote] = deque()
        self._shared = SharedNotes()
        self._wake = Event()
        self._closing = False
        self._thread = Thread(target=self._run, name="mcpdesk-capture", daemon=True)

    @cached_property
    def index(self) -> Index:
        """What to look at the recording with; made when somebody looks."""
        from mcpdesk.recorder.index import Index

        index = Index(self._store)
        index.secret_headers = self._secret_headers
        return index

    @property
    def frames(self) -> int:
        """How many there have been."""
        return self._store.count

    def connect(self, info: ConnectionInfo) -> None:
        """Announce a connection, or what more is known of it."""
        connections = self._store.connections
        with self._lock:
            connections[info.number] = info
            if info.transport == "memory":
                (self._desk.add if info.closed is None else self._desk.discard)(info.number)
            self._new_connections[info.number] = info
            if info.closed is not None:
                self._closed.append(info.number)
            if len(connections) > _CONNECTIONS:
                longest = self._closed.popleft() if self._closed else next(iter(connections))
                connections.pop(longest, None)

    def frame(
        self,
        connection: int,
        direction: Direction,
        data: bytes,
        is_json: bool = False,
        said: Said | None = None,
        at: float | None = None,
    ) -> int:
        """Record one frame and return its number."""
        size, when = len(data), at or time()
        with self._lock:
            number = (store := self._store).count
            if not number & SEGMENT_MASK:
                self._open_segment(number)
            if size <= KEPT_BYTES:
                self._append(Frame(number, when, connection, direction, data, size))
            else:
                self._append(self._cut(Frame(number, when, connection, direction, data, size)))
            if not is_json:
                self._segment.doubtful.add(number)
            if said is not None:
                self._segment.said[number] = said
            store.count = number + 1
        return number

    def together(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        doubtful: Sequence[int] = (),
        at: float | None = None,
    ) -> int:
        """Record frames that came or left at one time and return the first one's number.

        `doubtful` are places in `frames`, in order, of those not known to be JSON.
        """
        when = at or time()
        if len(frames) == 1:
            return self.frame(connection, direction, frames[0], not doubtful, None, when)
        if doubtful or not make_a_run(frames):
            numbers = [
                self.frame(connection, direction, frame, place not in doubtful, None, when)
                for place, frame in enumerate(frames)
            ]
            return numbers[0]
        with self._lock:
            store = self._store
            first = number = store.count
            end = first + len(frames)
            while number < end:
                if not number & SEGMENT_MASK:
                    self._open_segment(number)
                stop = min(end, (number | SEGMENT_MASK) + 1)
                data = joined(frames, b"\n", number - first, stop - first)
                self._append(Run(number, when, connection, direction, data, stop - number))
                store.count = number = stop
        return first

    def note(self, note: HttpNote) -> None:
        """Attach what HTTP said to a recorded frame."""
        if segment := self._store.ring.segment(note.frame):
            segment.notes[note.frame] = note
        self._new_notes.append(note)

    def start(self) -> None:
        """Open the file and start writing. Never raises: what goes wrong stands in `error`."""
        if self.path is not None:
            try:
                self._file = CaptureFile(self.path, self._max_file_bytes, time())
                self.path = self._file.path
                self._store.places = self._file.places
            except OSError as error:
                self._fail(error)
        self._thread.start()

    def close(self) -> None:
        """Write what is left and close the file. Everything can still be read afterwards."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self._settle(in_a_hurry=True)
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._fail(error)
            self._file = None

    # The hot path's rare turns; the lock is held

    def _open_segment(self, number: int) -> None:
        """Begin a segment; when nobody settles, the oldest frames go unwritten rather than all memory."""
        ring = self._store.ring
        if number:
            self._fill(ring.segments[(number - 1) >> SEGMENT_BITS], number)
        if self._fresh > _BACKLOG_BYTES and len(ring.segments) > 1:
            self._release(ring.drop_oldest())
        self._segment = ring.open(number)
        self._append = self._segment.entries.append

    def _release(self, segment: Segment) -> None:
        """Nobody has to settle it any more."""
        self._fresh -= segment.fresh
        segment.fresh = 0

    def _fill(self, segment: Segment, stop: int) -> None:
        """Make the lines of a full segment, which ends at `stop`; wake the writer before it is much."""
        start = max(self._claimed, stop - SEGMENT_FRAMES)
        made = segment.make(start, stop, self._group_bytes, self._store.waiting)
        segment.fresh = made.cost
        if self._file is not None and made.is_small:
            made.groups = list(made.groups)
            segment.made = made
            segment.fresh += made.size
        self._fresh += segment.fresh
        if self._fresh > _WAKE_BYTES:
            self._wake.set()

    def _cut(self, whole: Frame) -> Frame:
        """What stays of a large frame in memory; what is written of it waits for that if there is room."""
        number, data = whole.number, whole.data
        self._segment.is_whole = False
        written = self._written(whole)
        if written is not None and self._waiting_bytes + len(written) <= _WAITING_BYTES:
            self._waiting_bytes += len(written)
            self._store.waiting[number] = written
            # Written at once, its memory serves the next one; fresh memory costs a fault for every page.
            self._wake.set()
        return Frame(
            number,
            whole.time,
            whole.connection,
            whole.direction,
            beginning(data, KEPT_BYTES),
            whole.size,
            data[-END_BYTES:],
        )

    def _written(self, frame: Frame) -> bytes | None:
        """As much of a large frame as is written, when that is more than stays in memory."""
        most, data = self._body_bytes, frame.data
        # Pairing has to read all of a batch.
        if most is None or most >= frame.size or frame.connection in self._desk or data[:1] == b"[":
            return data
        return beginning(data, most) if most > KEPT_BYTES else None

    # The writer's thread

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(BATCH_S)
            self._wake.clear()
            hurry = monotonic() + _PATIENCE_S
            while not self._settle(in_a_hurry=self._closing or monotonic() > hurry):
                sleep(_PAUSE_S)

    def _settle(self, *, in_a_hurry: bool) -> bool:
        """Write some segments, in a hurry everything; then let the oldest frames go from memory.

        Returns whether that was all there was.
        """
        noted = len(self._new_notes)
        with self._lock:
            count = self._store.count
            end = ((self._settled >> SEGMENT_BITS) + _TURN) << SEGMENT_BITS
            self._claimed = upto = count if in_a_hurry else min(count, end)
        is_all = upto == count
        try:
            self._write(upto, noted if is_all else 0)
        except OSError as error:
            self._fail(error)
            self._write(upto, len(self._new_notes) if is_all else 0)
        self._trim()
        return is_all

    def _trim(self) -> None:
        """Let the oldest frames go from memory, a segment at a time: nobody waits for all of them.

        None goes that was not settled to its end: it may have been filled since.
        """
        ring = self._store.ring
        while ring.is_over and ring.oldest_stop <= self._settled:
            with self._lock:
                gone = ring.drop_oldest()
            del gone

    def _write(self, upto: int, noted: int) -> None:
        """Settle connections, frames below `upto` and the first `noted` notes, in this order."""
        file = self._file
        with self._lock:
            known, self._new_connections = self._new_connections, {}
        if file:
            for info in known.values():
                file.add_connection(info)
        while self._settled < upto:
            self._settle_segment(self._settled, upto, file)
        self._gather_notes(upto)
        self._shared.settle(self._store.ring, file)
        for _ in range(noted):
            self._settle_note(self._new_notes.popleft(), file)
        if file:
            file.flush()
        self._let_go(upto)

    def _let_go(self, upto: int) -> None:
        """Forget the wholes of large frames below `upto`: they are on disk now, or never will be."""
        for number in [number for number in list(self._store.waiting) if number < upto]:
            whole = self._store.waiting.pop(number)
            with self._lock:
                self._waiting_bytes -= len(whole)

    def _settle_segment(self, start: int, upto: int, file: CaptureFile | None) -> None:
        """Write the frames from `start` on that lie in one segment."""
        ring = self._store.ring
        stop = min((start | SEGMENT_MASK) + 1, upto)
        segment = ring.segment(start)
        if segment is None:
            self._settled = stop
            return
        with self._lock:
            self._release(segment)
        made, segment.made = segment.made, None
        if made is None or made.start != start:
            made = segment.make(start, stop, self._group_bytes, self._store.waiting)
        ring.account(start, made.cost)
        if file:
            self._own_up(start, file)
            for group in made.groups:
                self._settled += group.count
                file.add(group)
        self._settled = stop
        self.settled_bytes += made.size

    def _own_up(self, number: int, file: CaptureFile) -> None:
        """Say in the file what never came as far as this frame."""
        if (missing := number - len(file.places)) > 0:
            file.add_loss(number)
            self.error = f"{missing} frames went unwritten: the disk is too slow ({self.path})"

    def _gather_notes(self, upto: int) -> None:
        """Collect what was said around the frames below `upto` that were settled since the last time."""
        ring = self._store.ring
        while (start := self._gathered) < upto:
            self._gathered = stop = min((start | SEGMENT_MASK) + 1, upto)
            if (segment := ring.segment(start)) and segment.said:
                said = [each for each in segment.said.copy().items() if start <= each[0] < stop]
                ring.account(start, FRAME_COST * len(said))
                self._shared.add(said)

    def _settle_note(self, note: HttpNote, file: CaptureFile | None) -> None:
        """Write one note and keep it encoded, a third of the memory."""
        data = encoded(note)
        ring = self._store.ring
        if segment := ring.segment(note.frame):
            segment.notes[note.frame] = data
        ring.account(note.frame, FRAME_COST + len(data))
        if file:
            file.add_notes(((note.frame, note_line(data)),))

    def _fail(self, error: OSError) -> None:
        """Go on in memory only, and say why."""
        self.error = f"not captured to disk: {error.strerror or error} ({self.path})"
        self._file = None
        if self._store.places is None:
            self.path = None
