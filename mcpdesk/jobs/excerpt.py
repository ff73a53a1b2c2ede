"""A byte stream bounded in memory: the whole of a small one, head and tail of a large one."""

from __future__ import annotations

WHOLE_BYTES = 1 << 20
"""Up to this size a stream is kept as it is."""
END_BYTES = 128 << 10
"""Size of each end that is kept of a larger one."""
NOTE_LENGTH = 50
"""Characters of the line that says how much is left out, without the hint."""


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

    def is_longer(self, most: int) -> bool:
        """Whether it has more than so many characters."""
        return self.is_cut or (self.size > most and len(self._head.decode("utf-8", "replace")) > most)

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

    def text(self, hint: str = "", most: int | None = None) -> str:
        """UTF-8 with replacement; where bytes are left out, a line says how many, followed by `hint`.

        At most `most` characters, that line included; None: all that is kept.
        """
        head = self._head.decode("utf-8", "replace")
        if not self.is_cut and (most is None or len(head) <= most):
            return head
        tail = _from_the_middle(self._tail[-self._end :]) if self.is_cut else head
        head = head.rstrip("\ufffd") if self.is_cut else head
        if most is not None:
            half = max(0, (most - NOTE_LENGTH - len(hint)) // 2)
            head, tail = head[:half], tail[max(0, len(tail) - half) :]
        left_out = self.size - len(head.encode()) - len(tail.encode())
        return f"{head}\n[... {left_out:,} bytes left out{hint} ...]\n{tail}"

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
