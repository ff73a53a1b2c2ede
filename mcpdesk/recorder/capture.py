"""The recording of a running core: the newest frames in memory, every frame in the capture file.

Transports hand frames over on the hot path. Who records the last of some frames settles these at once, while
they are in the processor's cache, and lets as many of the oldest go from memory: little and often, for a
thread that competes for the interpreter would take three times as long and hold up everybody meanwhile. A
thread of its own only hands the lines to the disk, and settles what is large or was left, at most a quarter
of a second later. Where the file cannot be written, recording goes on in memory and `error` says why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic, sleep, time
from typing import TYPE_CHECKING

from mcpdesk.protocol.series import joined
from mcpdesk.recorder.capture_file import CaptureFile
from mcpdesk.recorder.groups import GROUP_BYTES, make_a_run
from mcpdesk.recorder.record import KEPT_BYTES, ConnectionInfo, Direction, Entry, Frame, HttpNote, Run, Said
from mcpdesk.recorder.ring import SEGMENT_BITS, SEGMENT_FRAMES, SEGMENT_MASK, Segment
from mcpdesk.recorder.settling import Settling
from mcpdesk.recorder.store import Store
from mcpdesk.recorder.wholes import Wholes

if TYPE_CHECKING:
    from mcpdesk.recorder.index import Index

BATCH_S = 0.2
_STEP_MASK = 63
"""Frames settled by who records the last of them, less one: what one request is held up by."""
_CATCH_UP = 2
"""Segments they may go back to, or let go from memory."""
_TURN = 2
"""Segments the writer settles between two pauses: requests under way are held up by those, not by all."""
_PAUSE_S = 0.0025
_END_S = 5.0
"""How long the end waits for the disk."""
_PATIENCE_S = 0.1
"""How long to go on with pauses."""
_WRITE_BYTES = 256 << 10
"""Bytes of lines that are worth a write: more at a time would take a processor from others for longer."""
_WAKE_BYTES = 4 << 20
"""Bytes of frames left to the writer beyond which it begins at once."""
_QUEUE_BYTES = 16 << 20
"""Bytes of lines that may wait for the disk; beyond them frames are left to the writer."""
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
        self._trouble = ""
        self._max_file_bytes = max_file_bytes
        self._store = Store(ring_bytes)
        self._wholes = Wholes(self._store.waiting, body_bytes)
        group_bytes = min(GROUP_BYTES, (max_file_bytes or GROUP_BYTES << 3) >> 3)
        self._settling = Settling(self._store, group_bytes)
        self._secret_headers = secret_headers
        self._segment: Segment
        self._append: Callable[[Entry], None]
        self._lock = Lock()
        """Held for moments. Who needs it and a turn of settling takes the turn first, or waits for none."""
        self._left: dict[int, int] = {}
        """Bytes of full segments that nobody settled yet, by the numbers of their last frames."""
        self._on_disk = 0
        """Frames that are with the operating system, and all that is said of them."""
        self._new_connections: dict[int, ConnectionInfo] = {}
        """What became known of connections, the newest of each: short sessions are told of once."""
        self._closed: deque[int] = deque()
        """Connections that ended, in this order."""
        self._new_notes: deque[HttpNote] = deque()
        self._wake = Event()
        self._is_running = False
        self._closing = self._is_late = False
        self._thread = Thread(target=self._run, name="mcpdesk-capture", daemon=True)

    @property
    def error(self) -> str:
        """Why not all of it is in a file; empty as long as it is."""
        return self._trouble or self._settling.error

    @property
    def settled_bytes(self) -> int:
        """Bytes of the frames that were settled, a moment after they came."""
        return self._settling.bytes

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
                (self._wholes.desk.add if info.closed is None else self._wholes.desk.discard)(info.number)
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
            if not number & _STEP_MASK:
                self._step(number)
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
                    self._step(number)
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
                file = CaptureFile(self.path, self._max_file_bytes, time())
            except OSError as error:
                self._fail(error)
            else:
                self.path, self._store.places, self._settling.file = file.path, file.places, file
        self._is_running = True
        self._thread.start()

    def close(self) -> None:
        """Write what is left and close the file. Everything can still be read afterwards.

        A disk that is stuck is not waited for: the thread at it writes what is left if it ever can.
        """
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_END_S)
        self._is_running = False
        if self._thread.is_alive():
            self._is_late = True
            self._trouble = f"not all is captured: the disk takes too long ({self.path})"
        else:
            self._finish()

    # The hot path's rare turns; the lock is held

    def _step(self, number: int) -> None:
        """Settle what came lately, where nothing stands in the way; begin a segment where one is full."""
        settling = self._settling
        if self._is_running and settling.turn.acquire(blocking=False):
            try:
                self._settle_now(number)
            finally:
                settling.turn.release()
        if not number & SEGMENT_MASK:
            if settling.frames < number:
                self._leave(number)
            ring = self._store.ring
            if sum(self._left.values()) > _BACKLOG_BYTES and len(ring.segments) > 1:
                # Nobody settles: the oldest frames go unwritten rather than all memory.
                self._left.pop(ring.oldest_stop - 1, None)
                ring.drop_oldest()
            self._segment = ring.open(number)
            self._append = self._segment.entries.append

    def _settle_now(self, upto: int) -> None:
        """Settle some frames below `upto`, and let as many go from memory."""
        settling = self._settling
        file = settling.file
        if file is not None and file.waiting > _QUEUE_BYTES:
            return
        if self._new_connections:
            settling.announce(self._taken_connections().values())
        latest = ((settling.frames >> SEGMENT_BITS) + _CATCH_UP) << SEGMENT_BITS
        settling.settle(min(upto, latest), is_pressed=True)
        self._trim(_CATCH_UP)
        if file is not None and file.waiting > _WRITE_BYTES and not self._wake.is_set():
            self._wake.set()

    def _leave(self, stop: int) -> None:
        """Leave the full segment before `stop`, or what is not settled of it, to the writer."""
        segment = self._store.ring.segment(stop - 1)
        if segment is not None:
            self._left[stop - 1] = segment.cost_of(max(self._settling.frames, stop - SEGMENT_FRAMES), stop)
            if sum(self._left.values()) > _WAKE_BYTES:
                self._wake.set()

    def _taken_connections(self) -> Mapping[int, ConnectionInfo]:
        """What became known of connections and was not told."""
        taken, self._new_connections = self._new_connections, {}
        return taken

    def _trim(self, most: int) -> bool:
        """Let the oldest segments go from memory, `most` of them; whether as many had to go.

        What no file holds yet stays.
        """
        ring, settled = self._store.ring, self._settling.frames
        upto = settled if self._settling.file is None else min(settled, self._on_disk)
        while self._left and (last := next(iter(self._left))) < settled:
            del self._left[last]
        while most and ring.is_over and ring.oldest_stop <= upto:
            ring.drop_oldest()
            most -= 1
        return not most

    def _cut(self, whole: Frame) -> Frame:
        """What stays of a large frame in memory."""
        self._segment.is_whole = False
        kept = self._wholes.cut(whole)
        if whole.number in self._store.waiting:
            # Written at once, its memory serves the next one; fresh memory costs a fault for every page.
            self._wake.set()
        return kept

    # The writer's thread

    def _run(self) -> None:
        due = monotonic() + BATCH_S
        while not self._closing:
            self._wake.wait(max(0.0, due - monotonic()))
            self._wake.clear()
            if self._left or self._store.waiting or monotonic() >= due:
                self._settle_all()
                due = monotonic() + BATCH_S
            else:
                self._flush()
        if self._is_late:
            self._finish()

    def _finish(self) -> None:
        """Settle what is left and close the file."""
        self._settle(in_a_hurry=True)
        file, self._settling.file = self._settling.file, None
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._fail(error)

    def _settle_all(self) -> None:
        hurry = monotonic() + _PATIENCE_S
        while not self._settle(in_a_hurry=self._closing or monotonic() > hurry):
            sleep(_PAUSE_S)

    def _settle(self, *, in_a_hurry: bool) -> bool:
        """Settle and write some segments, in a hurry everything; then let the oldest frames go from memory.

        Returns whether that was all there was.
        """
        settling = self._settling
        with settling.turn:
            with self._lock:
                count, noted = self._store.count, len(self._new_notes)
                connections = self._taken_connections()
            latest = ((settling.frames >> SEGMENT_BITS) + _TURN) << SEGMENT_BITS
            is_all = in_a_hurry or count <= latest
            settling.announce(connections.values())
            settling.settle(count if is_all else latest)
            if is_all:
                settling.share()
                for _ in range(noted):
                    settling.note(self._new_notes.popleft())
        self._flush()
        while self._trim_one():  # nobody waits for all of them
            pass
        return is_all

    def _trim_one(self) -> bool:
        with self._settling.turn, self._lock:
            return self._trim(1)

    def _flush(self) -> None:
        """Hand the lines there are to the operating system."""
        settling, notes = self._settling, self._new_notes
        with settling.turn:
            upto, file = settling.frames, settling.file
            noted = min(settling.noted, notes[0].frame) if notes else settling.noted
            taken = () if file is None else file.take()
        if file is not None:
            try:
                file.write(taken)
            except OSError as error:
                with settling.turn:
                    self._fail(error)
                file.abandon()
        self._on_disk = max(self._on_disk, noted)
        self._wholes.let_go(upto)

    def _fail(self, error: OSError) -> None:
        """Go on in memory only, and say why."""
        self._trouble = f"not captured to disk: {error.strerror or error} ({self.path})"
        self._settling.file = None
        if self._store.places is None:
            self.path = None
