"""Test of a filter on a single exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcpdesk.recorder.index.query import Node
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.record import ConnectionInfo, Frame, Gap, HeldMark, HttpNote, RecordedRemark


def is_match(node: Node, frames: list[Frame], connections: Mapping[int, ConnectionInfo]) -> bool:
    """Return True if a filter matches a message, or a request with its answer."""
    index = Index(_OneExchange(frames, connections))
    index.catch_up(1.0)
    view = View(index, node)
    view.advance(1.0)
    return bool(view.lines)


class _OneExchange:
    """A request, and its answer if there is one (implements `Source`)."""

    gaps: Sequence[Gap] = ()
    marks: Sequence[HeldMark] = ()
    first = removed = remarks_left_out = 0
    remarks: Sequence[RecordedRemark] = ()

    def __init__(self, frames: list[Frame], connections: Mapping[int, ConnectionInfo]) -> None:
        self._frames = frames
        self.connections = connections

    @property
    def count(self) -> int:
        return len(self._frames)

    def frame(self, number: int) -> Frame | None:
        return self._frames[number]

    def frames(self, start: int, stop: int) -> Sequence[Frame | None]:
        return self._frames[start:stop]

    def frame_bytes(self, number: int) -> bytes:
        return self._frames[number].data

    def note(self, number: int) -> HttpNote | None:
        return None

    def data(self, start: int, stop: int) -> list[bytes]:
        return [frame.data for frame in self._frames[start:stop]]
