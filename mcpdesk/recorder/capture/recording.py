"""The recording of a running core: the newest frames in memory, every frame in the capture file.

Transports hand frames over on the hot path, which only appends them to a segment in memory. A thread of its
own encodes them ten times a second, hands the lines to the disk, and releases the oldest segments from
memory. While the disk refuses lines, they and the frames wait in memory up to a bound, `failing` says why,
and every turn of the thread tries again; the file states which frames had to be left out meanwhile.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep, time
from typing import TYPE_CHECKING

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.capture.capture_file import CaptureFile, PartGone, Taken
from mcpdesk.recorder.capture.capture_lines import GROUP_BYTES, make_a_run
from mcpdesk.recorder.capture.encoder import CaptureEncoder, PendingBodies
from mcpdesk.recorder.capture.retention import UNLIMITED, RemovedFile, Retention, remove_old
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_BITS, SEGMENT_MASK, Segment, Store, held_bytes
from mcpdesk.recorder.record import (
    KEPT_BYTES,
    MOST_CONNECTIONS,
    MOST_REMARKS,
    CallLog,
    CaptureHealth,
    ConnectionInfo,
    Direction,
    Entry,
    Frame,
    FrameRun,
    HeldMark,
    HttpNote,
    RecordedRemark,
)

if TYPE_CHECKING:
    from mcpdesk.recorder.index.traffic_index import Index

_log = logging.getLogger(__name__)
BATCH_S = 0.1
"""Seconds between two turns of the writer: with the time a turn takes, a killed process loses no more."""
_TURN_SEGMENTS = 2
"""Segments the writer encodes between two pauses: requests under way are held up by those, not by all."""
_TURN_BYTES = 1 << 20
"""Bytes of lines it writes before it encodes more: what is in memory only is lost with the process.

While a disk refuses them, the frames after them stay unencoded, where they can be dropped and counted."""
_PAUSE_S = 0.0025
_PATIENCE_S = 0.05
"""How long to go on with pauses."""
_END_S = 5.0
"""How long the end waits for the disk."""
_STUCK_S = 2.0
"""How long one write may take before the disk counts as failing."""
_WAKE_BYTES = 4 << 20
"""Bytes of frames that wait for the writer beyond which it begins at once."""
_BACKLOG_BYTES = 128 << 20
"""Bytes of frames that may wait for the writer; beyond them the oldest go unwritten, and `error` says so."""
_FRAMES = 500_000
"""Frames that can be read back from the file while it is written; `mcpdesk open` reads all."""
_RETENTION_S = 600.0
"""Seconds between two looks for old captures, besides one for each new part."""
_EXCHANGES = 100_000
"""Exchanges the index keeps at hand; the capture has all."""
_MARK_BYTES = 16 << 20
"""Bytes of marks on held messages that are kept at hand."""
_MOST_LOGS = 2_000
"""Log lines that wait for the file; the oldest are lost where the disk is that slow."""


class Recording:
    """Implements `Recorder`."""

    def __init__(
        self,
        path: Path | None,
        ring_bytes: int = 64 << 20,
        max_file_bytes: int | None = None,
        secret_headers: frozenset[str] = frozenset(),
        body_bytes: int = 0,
        retention: Retention = UNLIMITED,
    ) -> None:
        """`body_bytes` of a client's frame are written, and never less than stay in memory; 0: all.

        `retention` limits all captures in the folder of `path`.
        """
        self.path = path
        """The file that is written; None while there is none."""
        self._wanted = path
        self._disk_error = ""
        """Why the disk refused the last attempt to write."""
        self._ending = ""
        self._writing_since: float | None = None
        self._retention = retention
        self._max_file_bytes = max_file_bytes = retention.part_bytes(max_file_bytes or 0) or None
        self._looked_at: tuple[float, Path | None] = (-inf, None)
        """When old captures were looked for last, and the part that was being written then."""
        self.removed_files = self.removed_bytes = 0
        """Files of captures that were removed to keep the limits, and their bytes."""
        self.on_removed: Callable[[RemovedFile], object] = lambda _: None
        """Called with each of them, on the writer's thread."""
        self._store = Store(ring_bytes)
        self._bodies = PendingBodies(self._store.waiting, body_bytes)
        group_bytes = min(GROUP_BYTES, (max_file_bytes or GROUP_BYTES << 3) >> 3)
        self._encoder = CaptureEncoder(self._store, group_bytes)
        self._secret_headers = secret_headers
        self._segment: Segment
        self._append: Callable[[Entry], None]
        self._lock = Lock()
        """Held for moments: it guards what transports and the writer both change."""
        self._backlog: dict[int, int] = {}
        """Bytes of full segments that are not encoded yet, by the numbers of their last frames."""
        self._on_disk = 0
        """Frames that are with the operating system, and all that is said of them."""
        self._new_connections: dict[int, ConnectionInfo] = {}
        """What became known of connections, the newest of each: short sessions are told of once."""
        self._closed: deque[int] = deque()
        """Connections that ended, in this order."""
        self._new_marks: list[HeldMark] = []
        self._mark_bytes = 0
        self._new_remarks: deque[RecordedRemark] = deque(maxlen=MOST_REMARKS)
        self._new_logs: deque[CallLog] = deque(maxlen=_MOST_LOGS)
        self._wake = Event()
        self._stirred = Event()
        """Ends the writer's rest."""
        self._is_resting = False
        """True while the writer waits for something to write."""
        self.on_work: Callable[[], object] = lambda: None
        """Called on any thread when the writer has to write again after a rest."""
        self._missing = 0
        self._closing = self._is_late = False
        self._thread = Thread(target=self._run, name="mcpdesk-capture", daemon=True)

    @property
    def error(self) -> str:
        """Why not all of it is in a file; empty as long as it is."""
        return self._ending or self.failing or self._encoder.error

    @property
    def failing(self) -> str:
        """Why frames cannot be written to a file at present; empty when they can, or none is wanted."""
        reason = self._reason
        return f"not captured to disk: {reason} ({self.path or self._wanted})" if reason else ""

    @property
    def missing(self) -> int:
        """Frames that are in no file and will never be, because it could not be written."""
        file = self._encoder.file
        return self._missing if file is None else file.missing

    @property
    def health(self) -> CaptureHealth:
        """Whether what is recorded reaches a file."""
        return CaptureHealth(self._wanted is not None, self._reason, self.missing)

    @property
    def _reason(self) -> str:
        since = self._writing_since
        if not self._disk_error and since is not None and monotonic() - since > _STUCK_S:
            return "the disk does not answer"
        return self._disk_error

    @property
    def encoded_bytes(self) -> int:
        """Bytes of all frames, counted a moment after they came."""
        return self._encoder.bytes

    @cached_property
    def index(self) -> Index:
        """What to look at the recording with; made when somebody looks."""
        from mcpdesk.recorder.index.traffic_index import Index

        index = Index(self._store, _EXCHANGES)
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
            if info.transport == "memory" and info.closed is None:
                self._bodies.whole_connections.add(info.number)
            else:
                self._bodies.whole_connections.discard(info.number)
            self._new_connections[info.number] = info
            if len(self._new_connections) > MOST_CONNECTIONS:
                del self._new_connections[next(iter(self._new_connections))]
            if info.closed is not None:
                self._closed.append(info.number)
            if len(connections) > MOST_CONNECTIONS:
                longest = self._closed.popleft() if self._closed else next(iter(connections))
                connections.pop(longest, None)
        if self._is_resting:
            self._end_rest()

    def frame(
        self,
        connection: int,
        direction: Direction,
        data: bytes,
        is_json: bool = False,
        note: HttpNote | None = None,
        at: float | None = None,
        phases: Phases | None = None,
        size: int = 0,
        end: bytes = b"",
    ) -> int:
        """Record one frame and return its number. Of one that was cut already, `size` is what it had."""
        size, when = size or len(data), at or time()
        with self._lock:
            number = (store := self._store).count
            if not number & SEGMENT_MASK:
                self._begin_segment(number)
            frame = Frame(number, when, connection, direction, data, size, end, phases)
            self._append(frame if size <= KEPT_BYTES else self._cut(frame))
            if not is_json:
                self._segment.doubtful.add(number)
            if note is not None:
                self._segment.notes[number] = note
            store.count = number + 1
        if self._is_resting:
            self._end_rest()
        return number

    def together(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        doubtful: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        """Record frames that came or left at one time and return the first one's number.

        Small ones are kept as one value: for progress, event by event, that halves the server's CPU time of
        an event (http: 1.1 instead of 2.1 us, stdio: 1.4 instead of 2.4 us; `python -m tests.bench
        progress`). `doubtful` are places in `frames`, in order, of those not known to be JSON.
        """
        when = time()
        if len(frames) == 1:
            only = phases.get(0) if phases else None
            return self.frame(connection, direction, frames[0], not doubtful, note, when, only)
        of = (phases or {}).get
        if doubtful or not make_a_run(frames):
            numbers = [
                self.frame(connection, direction, frame, place not in doubtful, None, when, of(place))
                for place, frame in enumerate(frames)
            ]
            return numbers[0]
        with self._lock:
            store = self._store
            first = number = store.count
            end = first + len(frames)
            while number < end:
                if not number & SEGMENT_MASK:
                    self._begin_segment(number)
                stop = min(end, (number | SEGMENT_MASK) + 1)
                data = b"\n".join(frames[number - first : stop - first])
                each = tuple(map(of, range(number - first, stop - first))) if phases else ()
                self._append(FrameRun(number, when, connection, direction, data, stop - number, each))
                store.count = number = stop
        if self._is_resting:
            self._end_rest()
        return first

    def mark(self, mark: HeldMark) -> None:
        """Note what became of a message that was held at the desk; memory keeps the first, the file all."""
        with self._lock:
            self._new_marks.append(mark)
            self._mark_bytes += len(mark.was) + len(mark.now) + FRAME_COST
            if self._mark_bytes <= _MARK_BYTES:
                self._store.marks.append(mark)
        self._end_rest()

    def remark(self, remark: RecordedRemark) -> None:
        """Record a remark on what a server sent; memory keeps the first, the file all."""
        with self._lock:
            if len(self._store.remarks) < MOST_REMARKS:
                self._store.remarks.append(remark)
            else:
                self._store.remarks_left_out += 1
            if self._wanted is not None:
                self._new_remarks.append(remark)
        self._end_rest()

    def log(self, log: CallLog) -> None:
        """Keep in the file what the code of a call said. From any thread."""
        if self._wanted is not None:
            self._new_logs.append(log)
            self._end_rest()

    def start(self) -> None:
        """Open the file and start writing. Never raises: what goes wrong stands in `error`."""
        self._open_file()
        self._thread.start()

    def close(self) -> None:
        """Write what is left and close the file. Everything can still be read afterwards.

        A disk that is stuck is not waited for: the thread at it writes what is left if it ever can.
        """
        self._closing = True
        self._wake.set()
        self._stirred.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)
        if self._thread.is_alive():
            self._is_late = True
            self._ending = f"not all is captured: the disk takes too long ({self.path})"
        else:
            self._finish()

    # On the hot path, once a segment or for a large frame; the lock is held

    def _begin_segment(self, number: int) -> None:
        """Leave the full segment to the writer, and begin the next one."""
        ring = self._store.ring
        if full := ring.segment(number - 1):
            self._backlog[number - 1] = held_bytes(full.entries) + FRAME_COST * len(full.entries)
        waiting = sum(self._backlog.values())
        if waiting > _WAKE_BYTES:
            self._wake_writer()
        if waiting > _BACKLOG_BYTES and len(ring.segments) > 1:
            # The writer does not keep up: the oldest frames go unwritten rather than all memory.
            self._backlog.pop(ring.oldest_stop - 1, None)
            ring.drop_oldest()
        self._segment = ring.open(number)
        self._append = self._segment.entries.append

    def _cut(self, whole: Frame) -> Frame:
        """What stays of a large frame in memory."""
        self._segment.is_whole = False
        kept = self._bodies.cut(whole)
        if whole.number in self._store.waiting:
            # Written at once, its memory serves the next one; fresh memory costs a fault for every page.
            self._wake_writer()
        return kept

    def _wake_writer(self) -> None:
        """Let the writer begin at once; a disk that refuses is asked again in the writer's own time."""
        if not self._disk_error:
            self._wake.set()

    def _end_rest(self) -> None:
        """Let the writer begin a batch if it rests."""
        if self._is_resting:
            self._is_resting = False
            self._stirred.set()
            self.on_work()

    @property
    def is_resting(self) -> bool:
        """True if all there is has been written."""
        return self._is_resting

    # The writer's thread

    def _run(self) -> None:
        due = monotonic() + BATCH_S
        while not self._closing:
            self._wake.wait(max(0.0, due - monotonic()))
            self._wake.clear()
            self._write_all()
            self._remove_old()
            self._rest()
            due = monotonic() + BATCH_S
        if self._is_late:
            self._finish()

    def _rest(self) -> None:
        """Wait until there is something to write or old captures are due to be removed.

        A disk that refuses is asked again at each beat.
        """
        self._stirred.clear()
        self._is_resting = True
        is_done = self._encoder.frames >= self._store.count and self._on_disk >= self._encoder.frames
        if is_done and not (self._has_news() or self._disk_error or self._store.ring.is_over):
            self._stirred.wait(_RETENTION_S if self._retention.is_on else None)
        self._is_resting = False

    def _has_news(self) -> bool:
        """True if connections, marks, remarks or logs wait to be written."""
        waiting = (self._new_connections, self._new_marks, self._new_remarks, self._new_logs)
        return any(waiting) or self._closing

    def _finish(self) -> None:
        """Write what is left and close the file."""
        while not self._write_some(in_a_hurry=True):
            pass
        file, self._encoder.file = self._encoder.file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._fail(error)
            unwritten = self._store.count - self._on_disk if self._disk_error else 0
            self._missing = file.missing + unwritten
        self._ending = self._ending if self._is_late else self.failing

    def _open_file(self) -> None:
        """Begin the capture file, if one is wanted and can be made."""
        if self._wanted is None:
            return
        try:
            file = CaptureFile(self._wanted, self._max_file_bytes, time(), _FRAMES)
        except OSError as error:
            self.path = None
            self._fail(error)
            return
        self.path, self._store.places, self._encoder.file = file.path, file.places, file
        self._disk_error = ""

    def _write_all(self) -> None:
        hurry = monotonic() + _PATIENCE_S
        while not self._write_some(in_a_hurry=(is_late := self._closing or monotonic() > hurry)):
            if not is_late:
                sleep(_PAUSE_S)

    def _write_some(self, *, in_a_hurry: bool) -> bool:
        """Encode and write some frames, in a hurry as many as may be; then release the oldest from memory.

        Returns whether that was all that can be done now.
        """
        encoder = self._encoder
        if encoder.file is None and not self._closing:
            self._open_file()
        file = encoder.file
        if file is not None and file.waiting >= _TURN_BYTES and self._disk_error:
            return not self._flush()
        with self._lock:
            count = self._store.count
            connections, self._new_connections = self._new_connections, {}
            marks, self._new_marks = self._new_marks, []
        latest = ((encoder.frames >> SEGMENT_BITS) + _TURN_SEGMENTS) << SEGMENT_BITS
        encoder.add_connections(connections.values())
        if file is not None:
            for mark in marks:
                file.add_mark(mark)
            while self._new_remarks:
                file.add_remark(self._new_remarks.popleft())
            while self._new_logs:
                file.add_log(self._new_logs.popleft())
        encoder.encode(count if in_a_hurry else min(count, latest), _TURN_BYTES)
        was_taken = self._flush()
        while self._release_oldest():  # nobody waits for all of them
            pass
        return encoder.frames >= count or not was_taken  # a disk that refuses is asked again at the next beat

    def _release_oldest(self) -> bool:
        """Release the oldest segment if memory is over its budget; whether there was one to release.

        What no file holds yet stays.
        """
        with self._lock:
            ring, encoded = self._store.ring, self._encoder.frames
            upto = encoded if self._encoder.file is None else min(encoded, self._on_disk)
            while self._backlog and (last := next(iter(self._backlog))) < encoded:
                del self._backlog[last]
            if not ring.is_over or ring.oldest_stop > upto:
                return False
            ring.drop_oldest()
            return True

    def _flush(self) -> bool:
        """Hand the lines there are to the operating system; whether it took them."""
        file = self._encoder.file
        if file is not None and not self._write(file, file.take()):
            return False
        self._on_disk = self._encoder.frames
        self._bodies.release(self._on_disk)
        return True

    def _write(self, file: CaptureFile, lines: Taken) -> bool:
        """Write lines after those that were refused before; whether the disk took all of them."""
        self._writing_since = monotonic()
        try:
            file.write(lines)
        except PartGone as error:
            self.path = file.begin_again(str(error))
            self._encoder.error = f"{file.missing} frames are missing in the capture: {error}"
            return True
        except OSError as error:
            self._fail(error)
            return False
        finally:
            self._writing_since = None
        self._disk_error = ""
        return True

    def _remove_old(self) -> None:
        """Remove old captures, if a new part was begun or it was done long ago."""
        file, (before, part) = self._encoder.file, self._looked_at
        if file is None or not self._retention.is_on:
            return
        if file.part == part and monotonic() - before < _RETENTION_S:
            return
        self._looked_at = monotonic(), file.part
        reserve = max(0, (self._max_file_bytes or 0) - file.written)
        try:
            for removed in remove_old(file.part.parent, self._retention, file.part, reserve, file.remove):
                self.removed_files += 1
                self.removed_bytes += removed.size
                self.on_removed(removed)
        except OSError:
            _log.warning("old captures could not be removed", exc_info=True)

    def _fail(self, error: OSError) -> None:
        """Go on in memory for the time being, and say why."""
        self._disk_error = self._encoder.disk_error = error.strerror or str(error)
