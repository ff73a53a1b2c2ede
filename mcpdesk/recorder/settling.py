"""What becomes of recorded frames: lines for the capture file, and a share of the memory there is for them.

Nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

from mcpdesk.recorder.capture_file import CaptureFile
from mcpdesk.recorder.lines import encoded, note_line
from mcpdesk.recorder.record import ConnectionInfo, HttpNote
from mcpdesk.recorder.ring import FRAME_COST, SEGMENT_MASK, Segment
from mcpdesk.recorder.shared_notes import SharedNotes
from mcpdesk.recorder.store import Store

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
