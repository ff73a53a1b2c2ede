"""What becomes of recorded frames: lines for the capture file, and a share of the memory there is for them.

Nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.capture_lines import encoded, note_line
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_MASK, Ring, Segment, Store
from mcpdesk.recorder.record import END_BYTES, KEPT_BYTES, ConnectionInfo, Frame, HttpNote, Said, beginning

_FEW = 16
"""Frames that are settled at once where some are large."""
_TOGETHER = 128
"""Notes gathered before they are settled: those that repeat each other become one line."""


class Settling:
    """One recording's. Whoever calls a method holds `turn`."""

    def __init__(self, store: Store, group_bytes: int) -> None:
        self.turn = Lock()
        self.file: CaptureFile | None = None
        """Where the lines go, if anywhere."""
        self.frames = 0
        """How many are settled."""
        self.bytes = 0
        """Bytes of those, as they came."""
        self.error = ""
        """What is missing in the file."""
        self.trouble = ""
        """Why the disk refused what came lately; empty: it was slow at most."""
        self._store = store
        self._group_bytes = group_bytes
        """Of frames that are made lines at once."""
        self._shared = SharedNotes()
        self._gathered = self._first_gathered = 0
        """How many notes, and the first frame of these."""

    def announce(self, connections: Iterable[ConnectionInfo]) -> None:
        """Say what is known of connections, before their frames."""
        if (file := self.file) is not None:
            for info in connections:
                file.add_connection(info)

    def settle(self, upto: int, *, is_pressed: bool = False, most: int | None = None) -> None:
        """Settle the frames below `upto`; who is pressed leaves large ones to others, and all after them.

        No further ones are begun once `most` bytes wait for the disk.
        """
        ring, file = self._store.ring, self.file
        while (start := self.frames) < upto and (most is None or file is None or file.waiting < most):
            stop = min((start | SEGMENT_MASK) + 1, upto)
            if segment := ring.segment(start):
                if not segment.is_whole:
                    stop = min(stop, start + _FEW)
                made = segment.make(start, stop, self._group_bytes, self._store.waiting)
                if is_pressed and not made.is_small:
                    return
                ring.account(start, made.cost)
                if file is not None:
                    self._own_up(start, file)
                    for group in made.groups:
                        file.add(group)
                        self.frames += group.count  # no line twice, should anything stop this here
                self.bytes += made.size
                self._gather(segment, start, stop)
            self.frames = stop

    @property
    def noted(self) -> int:
        """How many frames are settled before the first whose note only is gathered."""
        return self._first_gathered if self._gathered else self.frames

    def share(self) -> None:
        """Settle the notes that are gathered."""
        self._gathered = 0
        self._shared.settle(self._store.ring, self.file)

    def note(self, note: HttpNote) -> None:
        """Settle one note and keep it encoded, a third of the memory."""
        data, ring = encoded(note), self._store.ring
        if segment := ring.segment(note.frame):
            segment.notes[note.frame] = data
        ring.account(note.frame, FRAME_COST + len(data))
        if (file := self.file) is not None:
            file.add_notes(((note.frame, note_line(data)),))

    def _gather(self, segment: Segment, start: int, stop: int) -> None:
        """Gather what was said around the frames from `start` up to `stop`; share it when it is much."""
        get = segment.said.get
        said = [(number, each) for number in range(start, stop) if (each := get(number))]
        if not said:
            return
        self._store.ring.account(start, FRAME_COST * len(said))
        if not self._gathered:
            self._first_gathered = start
        self._shared.add(said)
        self._gathered += len(said)
        if self._gathered >= _TOGETHER:
            self.share()

    def _own_up(self, number: int, file: CaptureFile) -> None:
        """Say in the file what never came as far as this frame."""
        if (missing := number - len(file.places)) > 0:
            why = self.trouble or "the disk is too slow"
            file.add_loss(number, why)
            self.error = f"{missing} frames went unwritten: {why} ({file.path})"
            self.trouble = ""


MOST_KNOWN = 1_024
LARGEST_KNOWN = 4 << 10
"""Bytes of an encoded note beyond which it is not remembered for the next request."""
OBJECT_COST = 3
"""How much more memory headers take as objects than encoded."""


class _Known(Struct):
    """`said` was noted on `frame` last. Holding it, no other one can get its id."""

    said: Said
    frame: int
    is_counted: bool = False


class SharedNotes:
    """Gathers what was said around which frames, and settles it at once. One caller at a time.

    Accounts the contents of notes; that there are any counts for itself.
    """

    def __init__(self) -> None:
        self._fresh: dict[int, tuple[Said, list[int]]] = {}
        self._known: dict[int, _Known] = {}

    def add(self, noted: Iterable[tuple[int, Said]]) -> None:
        """Gather frames and what was said around each."""
        fresh = self._fresh
        for frame, said in noted:
            gathered = fresh.get(id(said))
            if gathered is None:
                fresh[id(said)] = said, [frame]
            else:
                gathered[1].append(frame)

    def settle(self, ring: Ring, file: CaptureFile | None) -> None:
        """Write and account what was gathered."""
        fresh, self._fresh = self._fresh, {}
        new: list[tuple[Said, list[int]]] = []
        for key, (said, frames) in fresh.items():
            if known := self._known.get(key):
                self._settle_known(known, frames, ring, file)
            else:
                new.append((said, frames))
        if new:
            self._settle_new(new, ring, file)

    def _settle_known(self, known: _Known, frames: list[int], ring: Ring, file: CaptureFile | None) -> None:
        if file and not file.add_same(known.frame, frames):
            file.add_notes(((frames[0], note_line(encoded(_note(frames[0], known.said)))),))
            known.frame = frames[0]
            file.add_same(known.frame, frames[1:])
        if not known.is_counted:
            known.is_counted = True
            ring.account(frames[0], OBJECT_COST * len(encoded(_note(frames[0], known.said))))

    def _settle_new(
        self, new: Sequence[tuple[Said, list[int]]], ring: Ring, file: CaptureFile | None
    ) -> None:
        notes = [(frames[0], encoded(_note(frames[0], said))) for said, frames in new]
        if file:
            file.add_notes([(first, note_line(data)) for first, data in notes])
        for (said, (_, *others)), (first, data) in zip(new, notes, strict=True):
            if others or len(data) <= LARGEST_KNOWN:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                known = self._known[id(said)] = _Known(said, first)
            # One that may be the only one of its kind is kept encoded: a third of the memory.
            if segment := ring.segment(first):
                segment.notes[first] = data
                segment.said.pop(first, None)
            ring.account(first, len(data))
            if others:
                self._settle_known(known, others, ring, file)


def _note(frame: int, said: Said) -> HttpNote:
    return HttpNote(frame, said.line, said.headers)


_MOST_BYTES = 64 << 20
"""That may wait; beyond them only a frame's beginning is kept."""


class Wholes:
    """Those of one recording."""

    def __init__(self, waiting: dict[int, bytes], body_bytes: int) -> None:
        """`waiting` has them by frame; `body_bytes` of a client's frame are written, 0: all."""
        self.desk: set[int] = set()
        """Connections whose frames are written whole: what the desk itself calls for."""
        self._waiting = waiting
        self._body_bytes = max(KEPT_BYTES, body_bytes) if body_bytes else None

    def cut(self, whole: Frame) -> Frame:
        """What stays of a large frame in memory; what more is to be written waits, if there is room."""
        written = self._written(whole)
        if written is not None and self._is_room(len(written)):
            self._waiting[whole.number] = written
        data = whole.data
        return replace(whole, data=beginning(data, KEPT_BYTES), end=data[-END_BYTES:])

    def let_go(self, upto: int) -> None:
        """Forget those of frames below `upto`: they are on disk now, or never will be."""
        for number in [number for number in list(self._waiting) if number < upto]:
            del self._waiting[number]

    def _written(self, frame: Frame) -> bytes | None:
        """As much of a large frame as is written, when that is more than stays in memory."""
        most, data = self._body_bytes, frame.data
        # Pairing has to read all of a batch.
        if most is None or most >= frame.size or frame.connection in self.desk or data[:1] == b"[":
            return data
        return beginning(data, most) if most > KEPT_BYTES else None

    def _is_room(self, size: int) -> bool:
        # A copy: the thread that writes lets some go meanwhile.
        return sum(map(len, list(self._waiting.values()))) + size <= _MOST_BYTES
