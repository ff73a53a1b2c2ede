"""A byte stream bounded in memory: the whole of a small one, head and tail of a large one."""

from __future__ import annotations

WHOLE_BYTES = 1 << 20
"""Up to this size a stream is kept as it is."""
END_BYTES = 128 << 10
"""Size of each end that is kept of a larger one."""


class Excerpt:
    """What is kept of a stream. Not locked: the owner sees to that."""

    def __init__(self, whole: int = WHOLE_BYTES, end: int = END_BYTES) -> None:
        self.size = 0
        """Bytes seen."""
        self._whole, self._end = whole, end
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def is_cut(self) -> bool:
        """Whether something is left out."""
        return self.size > self._whole

    @property
    def head(self) -> bytes:
        """The bytes kept from the start; everything while nothing is left out."""
        return bytes(self._head)

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        was_cut = self.is_cut
        self.size += len(data)
        if not self.is_cut:
            self._head += data
            return
        if not was_cut:
            self._split()
        room = self._end - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._end :]
        if len(self._tail) > 2 * self._end:
            del self._tail[: -self._end]

    def text(self, hint: str = "") -> str:
        """UTF-8 with replacement; where bytes are left out, a line says how many, followed by `hint`."""
        if not self.is_cut:
            return self._head.decode("utf-8", "replace")
        tail = self._tail[-self._end :]
        left_out = self.size - len(self._head) - len(tail)
        note = f"\n[... {left_out:,} bytes left out{hint} ...]\n"
        return self._head.decode("utf-8", "replace").rstrip("\ufffd") + note + _from_the_middle(tail)

    def end(self, limit: int) -> str:
        """The last `limit` bytes as text."""
        kept = self._tail or self._head
        return _from_the_middle(kept[-limit:]) if len(kept) > limit else kept.decode("utf-8", "replace")

    def _split(self) -> None:
        self._tail = self._head[self._end :][-self._end :]
        del self._head[self._end :]


def _from_the_middle(data: bytearray) -> str:
    """Text of bytes that may start inside a character."""
    return data.decode("utf-8", "replace").lstrip("\ufffd")
