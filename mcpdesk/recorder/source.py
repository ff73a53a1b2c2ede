"""Where an index finds frames: a running recording, or a capture opened from disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from mcpdesk.recorder.record import ConnectionInfo, Frame, Gap, HttpNote

MOST_HELD: Final = 8 << 20
"""Bytes of frames that are looked through at once."""


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
        """The bytes of successive frames, empty for those that are gone.

        Of all frames up to `stop`, or of as many as hold `MOST_HELD`; always of one at least.
        """

    @property
    def gaps(self) -> Sequence[Gap]:
        """Where frames are missing that have no numbers, rising."""


def up_to_most(pieces: Iterable[bytes]) -> list[bytes]:
    """The first of some pieces, until they hold `MOST_HELD` bytes together."""
    held, found = 0, list[bytes]()
    for piece in pieces:
        found.append(piece)
        held += len(piece)
        if held >= MOST_HELD:
            break
    return found
