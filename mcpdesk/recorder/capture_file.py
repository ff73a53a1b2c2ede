"""The append-only file a recording is written to, in parts of a bounded size.

Owned by the recorder's writer thread; only `places` is read by others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mcpdesk.recorder.groups import Group
from mcpdesk.recorder.lines import connection_line, header_line, lost_line, same_line
from mcpdesk.recorder.places import Places, part_path
from mcpdesk.recorder.record import ConnectionInfo

_BATCH_BYTES = 1 << 20
_PIECES = 1_000
"""Handed over at once; the operating system takes 1,024."""


class CaptureFile:
    """Appends lines and remembers where they begin. Every method may raise OSError."""

    def __init__(self, path: Path, max_bytes: int | None, started: float) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.places = Places()
        self._max_bytes = max_bytes
        self._started = started
        self._connections: dict[int, bytes] = {}
        self._buffer: list[bytes] = []
        self._buffered = self._offset = self._head = 0
        self._handle = -1
        self.path = self._create(path)

    def _create(self, path: Path) -> Path:
        """Open the first part under a name that no other capture has."""
        attempt = path
        for number in range(1, 1000):
            try:
                self._open(attempt)
                return attempt
            except FileExistsError:
                attempt = path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
        raise FileExistsError(f"too many captures are called {path.name}")

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o600)
        self._offset = 0
        self.places.parts.append(path)
        self._put(header_line(len(self.places.parts), len(self.places), self._started))
        for line in self._connections.values():
            self._put(line)
        self._head = self._offset

    def add_connection(self, info: ConnectionInfo) -> None:
        """Append what is known of a connection; open ones are repeated at the head of every part."""
        line = connection_line(info)
        self._put(line)
        self._connections[info.number] = line
        if info.closed is not None:
            del self._connections[info.number]

    def add(self, group: Group) -> None:
        """Append the lines of the next frames, in a new part when this one is full."""
        size = sum(map(len, group.pieces))
        is_full = self._max_bytes is not None and self._offset + size > self._max_bytes
        if is_full and self._offset > self._head:
            self._rotate()
        self.places.add(group.count, len(self.places.parts) - 1, self._offset, is_run=group.is_run)
        self._put(*group.pieces)

    def add_notes(self, notes: Sequence[tuple[int, bytes]]) -> None:
        """Append lines of notes on earlier frames."""
        part, offset = len(self.places.parts) - 1, self._offset
        for frame, line in notes:
            self.places.set_note(frame, part, offset)
            offset += len(line)
        self._put(*[line for _, line in notes])

    def add_same(self, noted: int, frames: Sequence[int]) -> bool:
        """Say that the note on a frame holds for others, too; False when it does not lie in this part."""
        if not self.places.share_note(noted, frames, len(self.places.parts) - 1):
            return False
        self._put(same_line(noted, frames))
        return True

    def add_loss(self, stop: int) -> None:
        """Own up to the frames from the next one up to `stop` (excluded) being lost."""
        start = len(self.places)
        self._put(lost_line(start, stop))
        self.places.skip_frames(stop - start)

    def flush(self) -> None:
        """Hand everything to the operating system: a killed process loses nothing that came this far."""
        pending: list[bytes | memoryview] = [*self._buffer]
        self._buffer.clear()
        self._buffered = 0
        while pending:
            # Handed over piece by piece: joined, every byte would be copied once more.
            written, whole = os.writev(self._handle, pending[:_PIECES]), 0
            while whole < len(pending) and written >= len(pending[whole]):
                written -= len(pending[whole])
                whole += 1
            del pending[:whole]
            if written:
                pending[0] = memoryview(pending[0])[written:]

    def close(self) -> None:
        """Flush and close; reading back still works afterwards."""
        try:
            self.flush()
        finally:
            os.close(self._handle)
            self.places.close()

    def _put(self, *pieces: bytes) -> None:
        size = sum(map(len, pieces))
        self._buffer += pieces
        self._offset += size
        self._buffered += size
        if self._buffered > _BATCH_BYTES:
            self.flush()

    def _rotate(self) -> None:
        self.flush()
        os.close(self._handle)
        self._open(part_path(self.path, len(self.places.parts) + 1))
