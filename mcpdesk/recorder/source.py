"""Where an index finds frames: a running recording, or a capture opened from disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mcpdesk.recorder.record import ConnectionInfo, Frame, HttpNote


class Source(Protocol):
    """Frames by number. Safe to read from any thread."""

    @property
    def count(self) -> int:
        """Frames recorded so far; numbers run from 0 up to it."""

    @property
    def connections(self) -> Mapping[int, ConnectionInfo]:
        """The latest of every connection, by number."""

    def frame(self, number: int) -> Frame | None:
        """One frame, its data cut to `KEPT_BYTES`; None when it is neither in memory nor on disk."""

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        """Successive frames; None for those that are gone."""

    def whole(self, number: int) -> bytes:
        """All bytes of a frame, or as many as were kept."""

    def note(self, number: int) -> HttpNote | None:
        """What HTTP said around a frame."""

    def data(self, start: int, stop: int) -> list[bytes]:
        """The bytes of successive frames, empty for those that are gone."""
