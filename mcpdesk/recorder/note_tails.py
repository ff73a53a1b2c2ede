"""HTTP notes whose line and headers were seen before: clients repeat theirs, which costs less to record."""

from __future__ import annotations

from mcpdesk.recorder.lines import encoded
from mcpdesk.recorder.record import HttpNote

MOST_KEPT = 256
LARGEST_KEPT = 4 << 10
"""Bytes of an encoded note beyond which it is not kept for the next one."""
OBJECT_COST = 3
"""How much more memory headers take as objects than encoded."""


class NoteTails:
    """What encoded notes end with, by the object their headers are."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[HttpNote, bytes]] = {}
        self._counted: set[int] = set()

    def encode(self, note: HttpNote) -> tuple[bytes, int | None]:
        """A note as JSON, and what keeping it as an object costs; None: it is better kept encoded."""
        key = id(note.headers)
        kept = self._kept.get(key)
        if kept is None or kept[0].headers is not note.headers or kept[0].line != note.line:
            return self._seen_first(key, note), None
        tail = kept[1]
        data = b'{"frame":%d,%b' % (note.frame, tail)
        if key in self._counted:
            return data, 0
        self._counted.add(key)
        return data, OBJECT_COST * len(tail)

    def _seen_first(self, key: int, note: HttpNote) -> bytes:
        data = encoded(note)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
            self._counted.clear()
        self._counted.discard(key)
        if len(data) <= LARGEST_KEPT:
            # The note is kept with it, for only then no other headers can get the same id.
            self._kept[key] = note, data.partition(b",")[2]
        return data
