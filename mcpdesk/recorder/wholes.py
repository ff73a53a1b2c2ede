"""The bytes of large frames until they are written: of those, memory keeps the beginning and the end."""

from __future__ import annotations

from msgspec.structs import replace

from mcpdesk.recorder.record import END_BYTES, KEPT_BYTES, Frame, beginning

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
