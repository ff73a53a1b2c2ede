"""Incremental framers: any split of bytes in, whole frames out. Sans-IO."""

from __future__ import annotations

DEFAULT_LIMIT = 16 << 20


class LineFramer:
    """Newline-delimited frames; blank lines are skipped. Pieces are joined once, at the newline."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.dropped = 0
        """How many oversized lines were skipped so far."""
        self._pieces: list[bytes] = []
        self._held = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the frames they complete, without their newlines.

        An oversized line yields an empty frame in its place, so that the caller can answer it.
        """
        end = data.find(b"\n")
        if end < 0:
            self._hold(data)
            return []
        if not (self._pieces or self._skipping) and len(data) <= self.limit:
            if end == len(data) - 1:
                line = data.strip()
                return [line] if line else []
            whole = data.split(b"\n")
            if left := whole.pop():
                self._hold(left)
            return [stripped for line in whole if (stripped := line.strip())]
        first, *rest = data.split(b"\n")
        self._hold(first)
        lines = [self._take(), *rest[:-1]]
        self._hold(rest[-1])
        return [frame for line in lines if (frame := self._finish(line)) is not None]

    def held(self) -> bytes | None:
        """The beginning of a line as it came; None when it is one that is skipped."""
        return None if self._skipping else b"".join(self._pieces)

    def close(self) -> bytes:
        """Return what was left without a newline at the end of the stream; empty when nothing was."""
        left = self._take()
        return left.strip() if left is not None else b""

    def _hold(self, piece: bytes) -> None:
        if not piece or self._skipping:
            return
        self._held += len(piece)
        if self._held > self.limit:
            self._pieces.clear()
            self._skipping = True
            return
        self._pieces.append(piece)

    def _take(self) -> bytes | None:
        whole = None if self._skipping else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        self._skipping = False
        return whole

    def _finish(self, line: bytes | None) -> bytes | None:
        if line is None or len(line) > self.limit:
            self.dropped += 1
            return b""
        stripped = line.strip()
        return stripped or None
