"""HTTP notes that are said again and again: clients repeat line and headers, which then are written once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from mcpdesk.recorder.capture_file import CaptureFile
from mcpdesk.recorder.lines import encoded, note_line
from mcpdesk.recorder.record import HttpNote, Said
from mcpdesk.recorder.ring import Ring

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
