"""Recording of a running core. The newest frames are in memory, and all frames are in the capture file.

Recording a frame only appends it to a segment in memory. Ten times a second, a writer thread encodes frames,
passes the lines to the disk, and releases the oldest segments from memory. While the disk refuses lines, they
wait in memory up to a limit, `failing` has the reason, and the thread tries again. The file states which
frames are missing.
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

from msgspec import structs

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.capture.capture_file import CaptureFile, PartUnavailable, QueuedData
from mcpdesk.recorder.capture.capture_lines import MAX_GROUP_BYTES, can_be_run
from mcpdesk.recorder.capture.encoder import CaptureEncoder, PendingBodies
from mcpdesk.recorder.capture.retention import UNLIMITED, RemovedFile, Retention, remove_old
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_BITS, SEGMENT_MASK, Segment, Store, data_bytes
from mcpdesk.recorder.record import (
    MAX_CONNECTIONS,
    MAX_KEPT_BYTES,
    MAX_REMARKS,
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
    remark_limit,
)

if TYPE_CHECKING:
    from mcpdesk.recorder.index.traffic_index import Index

_log = logging.getLogger(__name__)
BATCH_S = 0.1
"""Seconds between two turns of the writer thread.

If the process is killed, the frames of the last `BATCH_S` seconds and of the current turn are lost.
"""
_TURN_SEGMENTS = 2
"""Number of segments that are encoded without a pause. Other threads can handle requests during a pause."""
_TURN_BYTES = 1 << 20
"""Size in bytes of encoded lines that are written before more frames are encoded.

If the disk refuses them, later frames stay unencoded, so that they can be dropped and counted.
"""
_PAUSE_S = 0.0025
"""Seconds of one pause of the writer."""
_PAUSING_TIME_S = 0.05
"""Seconds at the start of a turn during which the writer pauses for `_PAUSE_S` between segments."""
_CLOSE_TIMEOUT_S = 5.0
"""Maximum number of seconds that `close` waits for the disk."""
_WRITE_TIMEOUT_S = 2.0
"""Seconds after which a write that has not ended counts as a failure of the disk."""
_WAKE_BYTES = 4 << 20
"""Size in bytes of waiting frames above which the writer starts at once."""
_MAX_BACKLOG_BYTES = 128 << 20
"""Maximum size in bytes of frames that wait for the writer.

If more frames wait, the oldest are dropped, and `error` reports this.
"""
_MAX_READABLE_FRAMES = 500_000
"""Maximum number of frames that can be read back while the file is written. `mcpdesk open` can read all
frames.
"""
_RETENTION_CHECK_S = 600.0
"""Seconds between two checks for old captures. Each new part causes a check as well."""
_MIN_KEPT_EXCHANGES = 100_000
"""Minimum number of exchanges that the index keeps. The capture file has all exchanges."""
_MAX_MARK_BYTES = 16 << 20
"""Maximum size in bytes of the decisions about held messages in memory."""
_MAX_LOGS = 2_000
"""Maximum number of log lines that wait for the file. If the disk is too slow, the oldest are lost."""


class Recording:
    """Recording of a core (implements `Recorder`)."""

    def __init__(
        self,
        path: Path | None,
        ring_bytes: int = 64 << 20,
        max_file_bytes: int | None = None,
        secret_headers: frozenset[str] = frozenset(),
        body_bytes: int = 0,
        retention: Retention = UNLIMITED,
    ) -> None:
        """Create a recording that writes to `path`.

        At most `body_bytes` bytes of a client's frame are written, but never less than memory keeps. 0 means
        all bytes. `retention` limits the size and age of all captures in the folder of `path`.
        """
        self.path = path
        """File to write, or None."""
        self._requested_path = path
        self._disk_error = ""
        """Reason why the disk refused the last write, or "" if it accepted it."""
        self._final_error = ""
        """Value of `failing` when the recording was closed."""
        self._write_start: float | None = None
        """Monotonic time in seconds at which the current write began, or None."""
        self._retention = retention
        self._max_file_bytes = max_file_bytes = retention.part_bytes(max_file_bytes or 0) or None
        self._last_retention_check: tuple[float, Path | None] = (-inf, None)
        """Time of the last check for old captures, and the part that was written then."""
        self.removed_files = self.removed_bytes = 0
        """Number and total size of the capture files that were removed because of the limits."""
        self.on_removed: Callable[[RemovedFile], object] = lambda _: None
        """Function that is called on the writer thread with each removed file."""
        self._store = Store(ring_bytes)
        self._bodies = PendingBodies(self._store.waiting, body_bytes)
        group_bytes = min(MAX_GROUP_BYTES, (max_file_bytes or MAX_GROUP_BYTES << 3) >> 3)
        self._encoder = CaptureEncoder(self._store, group_bytes)
        self._secret_headers = secret_headers
        self._segment: Segment
        self._append: Callable[[Entry], None]
        """Segment for the next frame, and its function that appends an entry."""
        self._lock = Lock()
        """Lock for data that are changed by the transports and by the writer. It is held only briefly."""
        self._backlog: dict[int, int] = {}
        """Size in bytes of each full segment that is not encoded yet, by the number of its last frame."""
        self._on_disk = 0
        """Number of frames that were passed to the operating system together with their metadata."""
        self._new_connections: dict[int, ConnectionInfo] = {}
        """Latest data of connections that are not written yet.

        Several updates of a connection are written as one.
        """
        self._closed: deque[int] = deque()
        """Connections that ended, in this order."""
        self._new_marks: list[HeldMark] = []
        """Decisions about held messages that are not written yet."""
        self._mark_bytes = 0
        """Size in bytes of all decisions so far."""
        self._new_remarks: deque[RecordedRemark] = deque(maxlen=MAX_REMARKS)
        """Remarks that are not written yet."""
        self._new_logs: deque[CallLog] = deque(maxlen=_MAX_LOGS)
        """Log lines of calls that are not written yet."""
        self._lost_logs = 0
        """Number of log lines that were dropped before the first one in `_new_logs`."""
        self._next_turn = Event()
        """Event that starts the next turn of the writer before `BATCH_S` seconds have passed."""
        self._has_work = Event()
        """Event that wakes the writer while it rests because there was nothing to write."""
        self._is_resting = False
        """True while the writer waits because there is nothing to write."""
        self.on_work: Callable[[], object] = lambda: None
        """Function that is called on any thread when the writer has work again."""
        self._missing = 0
        """Number of frames that were missing in the file when it was closed."""
        self._is_closing = False
        self._is_late = False
        """True if the writer was still busy when `close` stopped waiting for it."""
        self._thread = Thread(target=self._run, name="mcpdesk-capture", daemon=True)

    @property
    def error(self) -> str:
        """Reason why the file is incomplete, or "" if it is complete."""
        return self._final_error or self.failing or self._encoder.error

    @property
    def failing(self) -> str:
        """Reason why frames cannot be written now, or "" if they can be written or no file was requested."""
        reason = self._disk_failure
        return f"not captured to disk: {reason} ({self.path or self._requested_path})" if reason else ""

    @property
    def missing(self) -> int:
        """Number of frames that are missing in the file because they could not be written."""
        file = self._encoder.file
        return self._missing if file is None else file.missing

    @property
    def health(self) -> CaptureHealth:
        """State of the capture file."""
        return CaptureHealth(self._requested_path is not None, self._disk_failure, self.missing)

    @property
    def _disk_failure(self) -> str:
        """Reason why the disk refuses data now, without a path, or "" if it accepts them."""
        since = self._write_start
        if not self._disk_error and since is not None and monotonic() - since > _WRITE_TIMEOUT_S:
            return "the disk does not answer"
        return self._disk_error

    @property
    def encoded_bytes(self) -> int:
        """Total size, before encoding, of the frames encoded so far, in bytes.

        The value may be slightly out of date.
        """
        return self._encoder.bytes

    @cached_property
    def index(self) -> Index:
        """Index of the recording. It is created on first use."""
        from mcpdesk.recorder.index.traffic_index import Index

        index = Index(self._store, _MIN_KEPT_EXCHANGES)
        index.secret_headers = self._secret_headers
        return index

    @property
    def frames(self) -> int:
        """Number of frames recorded so far."""
        return self._store.count

    def connect(self, info: ConnectionInfo) -> None:
        """Record a new connection, or new data of a connection."""
        connections = self._store.connections
        with self._lock:
            connections[info.number] = info
            if info.transport == "memory" and info.closed is None:
                self._bodies.uncut_connections.add(info.number)
            else:
                self._bodies.uncut_connections.discard(info.number)
            self._new_connections[info.number] = info
            if len(self._new_connections) > MAX_CONNECTIONS:
                del self._new_connections[next(iter(self._new_connections))]
            if info.closed is not None:
                self._closed.append(info.number)
            if len(connections) > MAX_CONNECTIONS:
                oldest_connection = self._closed.popleft() if self._closed else next(iter(connections))
                connections.pop(oldest_connection, None)
        if self._is_resting:
            self._wake_if_resting()

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
        """Record one frame and return its number.

        `size` is the original size of a frame that is already cut.
        """
        size = size or len(data)
        moment = at or time()
        with self._lock:
            number = (store := self._store).count
            if not number & SEGMENT_MASK:
                self._begin_segment(number)
            frame = Frame(number, moment, connection, direction, data, size, end, phases)
            self._append(frame if size <= MAX_KEPT_BYTES else self._cut(frame))
            if not is_json:
                self._segment.unchecked.add(number)
            if note is not None:
                self._segment.notes[number] = note
            store.count = number + 1
        if self._is_resting:
            self._wake_if_resting()
        return number

    def frame_batch(
        self,
        connection: int,
        direction: Direction,
        frames: Sequence[bytes],
        unchecked: Sequence[int] = (),
        note: HttpNote | None = None,
        phases: Mapping[int, Phases] | None = None,
    ) -> int:
        """Record frames of the same time, and return the number of the first one.

        Small frames are stored as one value. For progress notifications this halves the processor time of the
        server per event (http: 1.1 instead of 2.1 us, stdio: 1.4 instead of 2.4 us; measured with `python -m
        tests.bench progress`). `unchecked` has the positions in `frames`, in ascending order, of those that
        may not be JSON.
        """
        moment = time()
        if len(frames) == 1:
            frame_phases = phases.get(0) if phases else None
            return self.frame(connection, direction, frames[0], not unchecked, note, moment, frame_phases)
        phases_of = (phases or {}).get
        if unchecked or not can_be_run(frames):
            numbers = [
                self.frame(
                    connection, direction, frame, index not in unchecked, None, moment, phases_of(index)
                )
                for index, frame in enumerate(frames)
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
                run_phases = tuple(map(phases_of, range(number - first, stop - first))) if phases else ()
                self._append(FrameRun(number, moment, connection, direction, data, stop - number, run_phases))
                store.count = number = stop
        if self._is_resting:
            self._wake_if_resting()
        return first

    def mark(self, mark: HeldMark) -> None:
        """Record a decision about a held message.

        The first decisions are kept in memory. The file has all decisions.
        """
        with self._lock:
            self._new_marks.append(mark)
            self._mark_bytes += len(mark.was) + len(mark.now) + FRAME_COST
            if self._mark_bytes <= _MAX_MARK_BYTES:
                self._store.marks.append(mark)
        self._wake_if_resting()

    def remark(self, remark: RecordedRemark) -> None:
        """Record a remark on a message of a server.

        The first remarks are kept in memory. The file has all remarks.
        """
        with self._lock:
            if len(self._store.remarks) < remark_limit(remark, MAX_REMARKS):
                self._store.remarks.append(remark)
            else:
                self._store.remarks_left_out += 1
            if self._requested_path is not None:
                self._new_remarks.append(remark)
        self._wake_if_resting()

    def log(self, log: CallLog) -> None:
        """Write a log line of a call to the file. May be called on any thread."""
        if self._requested_path is None:
            return
        with self._lock:
            self._lost_logs += len(self._new_logs) == self._new_logs.maxlen
            self._new_logs.append(log)
        self._wake_if_resting()

    def start(self) -> None:
        """Open the file and start the writer. Never raises; `error` reports problems."""
        self._open_file()
        self._thread.start()

    def close(self) -> None:
        """Write the remaining data and close the file. All data can still be read.

        If the disk does not respond, the writer thread writes the data later, and this method returns.
        """
        self._is_closing = True
        self._next_turn.set()
        self._has_work.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            self._is_late = True
            self._final_error = f"the capture is incomplete: the disk takes too long ({self.path})"
        else:
            self._finish()

    # Called for every frame or segment, with the lock held

    def _begin_segment(self, number: int) -> None:
        """Pass the full segment to the writer, and begin the next one."""
        ring = self._store.ring
        if full_segment := ring.segment(number - 1):
            self._backlog[number - 1] = data_bytes(full_segment.entries) + FRAME_COST * len(
                full_segment.entries
            )
        backlog_bytes = sum(self._backlog.values())
        if backlog_bytes > _WAKE_BYTES:
            self._wake_writer()
        if backlog_bytes > _MAX_BACKLOG_BYTES and len(ring.segments) > 1:
            # The writer is too slow. Drop the oldest frames instead of filling all memory.
            self._backlog.pop(ring.oldest_stop - 1, None)
            ring.drop_oldest()
        self._segment = ring.open(number)
        self._append = self._segment.entries.append

    def _cut(self, frame: Frame) -> Frame:
        """Return the part of a large frame that stays in memory."""
        self._segment.is_complete = False
        shortened = self._bodies.cut(frame)
        if frame.number in self._store.waiting:
            # Write the frame at once, so that its memory is reused. Fresh memory causes a page fault for
            # every page.
            self._wake_writer()
        return shortened

    def _wake_writer(self) -> None:
        """Start the writer at once. If the disk is failing, keep the normal interval."""
        if not self._disk_error:
            self._next_turn.set()

    def _wake_if_resting(self) -> None:
        """Wake the writer if it is resting."""
        if self._is_resting:
            self._is_resting = False
            self._has_work.set()
            self.on_work()

    @property
    def is_resting(self) -> bool:
        """True if all data are written."""
        return self._is_resting

    # Methods of the writer thread

    def _run(self) -> None:
        """Write frames in turns until the recording is closed."""
        turn_time = monotonic() + BATCH_S
        while not self._is_closing:
            self._next_turn.wait(max(0.0, turn_time - monotonic()))
            self._next_turn.clear()
            self._write_all()
            self._remove_old_captures()
            self._wait_for_work()
            turn_time = monotonic() + BATCH_S
        if self._is_late:
            self._finish()

    def _wait_for_work(self) -> None:
        """Wait until there is something to write, or old captures must be removed.

        If the disk is failing, return at once, because the next turn tries to write again.
        """
        self._has_work.clear()
        self._is_resting = True
        is_done = self._encoder.frames >= self._store.count and self._on_disk >= self._encoder.frames
        if is_done and not (
            self._has_unwritten_data() or self._disk_error or self._store.ring.is_over_budget
        ):
            self._has_work.wait(_RETENTION_CHECK_S if self._retention.is_on else None)
        self._is_resting = False

    def _has_unwritten_data(self) -> bool:
        """True if connections, decisions, remarks or log lines wait to be written."""
        queues = (self._new_connections, self._new_marks, self._new_remarks, self._new_logs)
        return any(queues) or self._is_closing

    def _take_logs(self) -> list[CallLog]:
        """Remove and return the log lines to write.

        If lines were lost, the first one is a warning with their number.
        """
        with self._lock:
            logs = list(self._new_logs)
            self._new_logs.clear()
            lost_count, self._lost_logs = self._lost_logs, 0
        if lost_count:
            text = f"{lost_count} log lines before this one are missing: the disk is too slow"
            logs.insert(0, structs.replace(logs[0], level="warning", source="recorder", text=text, where=""))
        return logs

    def _finish(self) -> None:
        """Write the remaining data and close the file."""
        while not self._write_some(is_hurried=True):
            pass
        file, self._encoder.file = self._encoder.file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._set_disk_error(error)
            unwritten = self._store.count - self._on_disk if self._disk_error else 0
            self._missing = file.missing + unwritten
        self._final_error = self._final_error if self._is_late else self.failing

    def _open_file(self) -> None:
        """Create the capture file, if a path was requested."""
        if self._requested_path is None:
            return
        try:
            file = CaptureFile(self._requested_path, self._max_file_bytes, time(), _MAX_READABLE_FRAMES)
        except OSError as error:
            self.path = None
            self._set_disk_error(error)
            return
        self.path, self._store.positions, self._encoder.file = file.path, file.positions, file
        self._disk_error = ""

    def _write_all(self) -> None:
        """Write all frames, first in slices with pauses, then without pauses."""
        pausing_end = monotonic() + _PAUSING_TIME_S
        while True:
            is_hurried = self._is_closing or monotonic() > pausing_end
            if self._write_some(is_hurried=is_hurried):
                return
            if not is_hurried:
                sleep(_PAUSE_S)

    def _write_some(self, *, is_hurried: bool) -> bool:
        """Encode and write some frames, or all frames if `is_hurried`. Then release old segments.

        Return True if there is nothing more to do now.
        """
        encoder = self._encoder
        if encoder.file is None and not self._is_closing:
            self._open_file()
        file = encoder.file
        if file is not None and file.waiting >= _TURN_BYTES and self._disk_error:
            return not self._flush()
        with self._lock:
            count = self._store.count
            connections, self._new_connections = self._new_connections, {}
            marks, self._new_marks = self._new_marks, []
        slice_end = ((encoder.frames >> SEGMENT_BITS) + _TURN_SEGMENTS) << SEGMENT_BITS
        encoder.add_connections(connections.values())
        if file is not None:
            for mark in marks:
                file.add_mark(mark)
            while self._new_remarks:
                file.add_remark(self._new_remarks.popleft())
            for log in self._take_logs():
                file.add_log(log)
        encoder.encode(count if is_hurried else min(count, slice_end), _TURN_BYTES)
        was_accepted = self._flush()
        while self._release_oldest():  # with a new lock each time, so that transports can record in between
            pass
        # If the disk is failing, the next turn tries again.
        return encoder.frames >= count or not was_accepted

    def _release_oldest(self) -> bool:
        """Release the oldest segment if the memory limit is exceeded. Return True if a segment was released.

        Frames that are not in the file yet are kept.
        """
        with self._lock:
            ring, encoded = self._store.ring, self._encoder.frames
            releasable = encoded if self._encoder.file is None else min(encoded, self._on_disk)
            while self._backlog and (last := next(iter(self._backlog))) < encoded:
                del self._backlog[last]
            if not ring.is_over_budget or ring.oldest_stop > releasable:
                return False
            ring.drop_oldest()
            return True

    def _flush(self) -> bool:
        """Pass queued lines to the operating system. Return True if it accepted all."""
        file = self._encoder.file
        if file is not None and not self._write(file, file.drain()):
            return False
        self._on_disk = self._encoder.frames
        self._bodies.release(self._on_disk)
        return True

    def _write(self, file: CaptureFile, lines: QueuedData) -> bool:
        """Write the lines that the disk refused before, then `lines`.

        Return True if the disk accepted all.
        """
        self._write_start = monotonic()
        try:
            file.write(lines)
        except PartUnavailable as error:
            self.path = file.restart_in_new_part(str(error))
            self._encoder.error = f"{file.missing} frames are missing in the capture: {error}"
            return True
        except OSError as error:
            self._set_disk_error(error)
            return False
        finally:
            self._write_start = None
        self._disk_error = ""
        return True

    def _remove_old_captures(self) -> None:
        """Remove old captures if a new part was started, or after `_RETENTION_CHECK_S` seconds."""
        file = self._encoder.file
        if file is None or not self._retention.is_on:
            return
        last_check, checked_part = self._last_retention_check
        if file.part == checked_part and monotonic() - last_check < _RETENTION_CHECK_S:
            return
        self._last_retention_check = monotonic(), file.part
        reserve_bytes = max(0, (self._max_file_bytes or 0) - file.written)
        try:
            for removed in remove_old(
                file.part.parent, self._retention, file.part, reserve_bytes, file.remove
            ):
                self.removed_files += 1
                self.removed_bytes += removed.size
                self.on_removed(removed)
        except OSError:
            _log.warning("old captures could not be removed", exc_info=True)

    def _set_disk_error(self, error: OSError) -> None:
        """Store the reason why the disk refused data. Recording continues in memory."""
        self._disk_error = self._encoder.disk_error = error.strerror or str(error)
