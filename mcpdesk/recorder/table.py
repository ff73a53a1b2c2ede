"""Exchanges in columns: about 70 bytes each and nothing for the collector to walk, however many there are."""

from __future__ import annotations

from array import array
from math import nan

from mcpdesk.recorder.exchange import Code
from mcpdesk.recorder.head import Head, Id
from mcpdesk.recorder.record import Frame

NO_FRAME = -1


Label = tuple[str, str]
"""Method and name: what exchanges of one sort have in common."""


class Table:
    """One row per exchange; a row is its number."""

    def __init__(self) -> None:
        self.kind = array("B")
        self.status = array("B")
        self.direction = array("B")
        self.slow = array("B")
        self.connection = array("q")
        self.label = array("l")
        self.revision = array("H")
        self.first = array("q")
        """The frame a row was made for; never falls from row to row."""
        self.request = array("q")
        self.response = array("q")
        self.started = array("d")
        self.ended = array("d")
        """NaN while pending."""
        self.size = array("Q")
        self.id: list[Id | None] = []
        self.labels: list[Label] = []
        self.revisions: list[str] = [""]
        self._label_of: dict[Label, int] = {}

    def __len__(self) -> int:
        return len(self.id)

    def add(self, head: Head, frame: Frame, kind: int, status: Code) -> int:
        """Make the row of a message that begins one; returns it."""
        number, direction = frame.number, frame.direction
        asks = status is not Code.LATE
        label = self._label_of.get((head.method, head.name))
        self.status.append(status)
        self.direction.append(direction if asks else 1 - direction)
        self.slow.append(0)
        self.connection.append(frame.connection)
        self.label.append(self._label(head.method, head.name) if label is None else label)
        self.revision.append(self.revision_code(head.revision) if head.revision else 0)
        self.first.append(number)
        self.request.append(number if asks else NO_FRAME)
        self.response.append(NO_FRAME if asks else number)
        self.started.append(frame.time)
        self.ended.append(nan if status is Code.PENDING else frame.time)
        self.size.append(frame.size)
        self.kind.append(kind)
        self.id.append(head.id)
        return len(self.id) - 1

    def answer(self, row: int, frame: Frame, status: Code) -> float:
        """Enter the response of a row; returns the seconds it took."""
        self.status[row] = status
        self.response[row] = frame.number
        self.size[row] += frame.size
        self.ended[row] = frame.time
        return frame.time - self.started[row]

    def end(self, row: int, time: float, status: Code) -> None:
        """End a row without a response."""
        self.status[row] = status
        self.ended[row] = time

    def resume(self, row: int, size: int) -> None:
        """Go on with a row that has a response, in a further request of `size` bytes."""
        self.status[row] = Code.PENDING
        self.ended[row] = nan
        self.size[row] += size

    def conclude(self, row: int, last: int, size: int) -> None:
        """End a row as its last round `last` ended, with a response of `size` bytes."""
        self.status[row] = self.status[last]
        self.ended[row] = self.ended[last]
        self.slow[row] |= self.slow[last]
        self.size[row] += size

    def method(self, row: int) -> str:
        """The method of a row."""
        return self.labels[self.label[row]][0]

    def revision_code(self, revision: str) -> int:
        """The small number of a revision; a peer that makes up thousands of them gets none."""
        if revision in self.revisions:
            return self.revisions.index(revision)
        if len(self.revisions) > 100:
            return 0
        self.revisions.append(revision)
        return len(self.revisions) - 1

    def _label(self, method: str, name: str) -> int:
        label = self._label_of[method, name] = len(self.labels)
        self.labels.append((method, name))
        return label
