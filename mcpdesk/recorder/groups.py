"""Frames as they are written: those of one group stand in the capture file at one place."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from mcpdesk.protocol.series import joined
from mcpdesk.recorder.lines import frame_lines, frame_pieces, run_pieces
from mcpdesk.recorder.record import KEPT_BYTES, Entry, Frame, Run

GROUP_BYTES = 512 << 10
"""Frames are written at once up to so many bytes: larger ones would hold up everybody else."""


class Group(Struct, gc=False, frozen=True):
    """Successive frames and their lines. Large ones are not copied: hence pieces."""

    count: int
    pieces: Sequence[bytes]
    is_run: bool = False
    """Whether a line before theirs tells what they have in common."""


def make_a_run(frames: Sequence[bytes]) -> bool:
    """Whether frames that are JSON can be kept as one value."""
    whole = joined(frames, b"")
    if len(whole) > KEPT_BYTES and (len(whole) > GROUP_BYTES or max(map(len, frames)) > KEPT_BYTES):
        return False
    return b"\n" not in whole


def at_once(entries: Sequence[Entry], doubtful: Container[int]) -> Iterator[Group]:
    """Groups of frames that are whole and small, as few as can be."""
    for _, some in groupby(entries, type):
        alike = list(some)
        frames = [entry for entry in alike if isinstance(entry, Frame)]
        if frames and (lines := frame_lines(frames, doubtful)):
            yield Group(len(frames), (lines,))
        else:
            yield from one_by_one(alike, doubtful, {})


def one_by_one(
    entries: Sequence[Entry], doubtful: Container[int], wholes: Mapping[int, bytes]
) -> Iterator[Group]:
    """A group of each run and each frame. `wholes` has the bytes of frames that were cut, by number."""
    for entry in entries:
        if isinstance(entry, Run):
            yield Group(entry.count, run_pieces(entry), is_run=True)
        else:
            whole = wholes.get(entry.number, entry.data)
            yield Group(1, frame_pieces(entry, whole, entry.number not in doubtful))
