"""The lines of a view in the order they are shown: as they came or by a column, one call unfolded."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time
from typing import Any, Protocol, overload

from mcpdesk.recorder.index.exchange import STATUSES, Id, Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View

MOST_SORTED = 100_000
"""Lines that are sorted as a whole; of more the foremost `MOST_FOUND` are shown."""
MOST_FOUND = 10_000
_PERIOD_S = 1.0
"""Lines that change are sorted again after this time, or after ten times what sorting took."""
_STATUS_ORDER = (
    Status.MALFORMED, Status.LOST, Status.ERROR, Status.TOOL_ERROR, Status.LATE, Status.CANCELLED,
    Status.ASKS, Status.PENDING, Status.OK, Status.SENT,
)  # fmt: skip
_STATUS_RANKS = [_STATUS_ORDER.index(status) for status in STATUSES]
SORTABLE = {
    "took": True,
    "size": True,
    "status": False,
    "what": False,
    "peer": False,
    "id": False,
    "revision": False,
}
"""The columns that lines can be sorted by -> whether the largest comes first."""


class ShownLines(Protocol):
    """Some lines, and where each of them stands."""

    raw: bool

    @property
    def lines(self) -> Sequence[int]:
        """Numbers of exchanges, or of frames in raw form."""

    def position(self, line: int) -> int:
        """Where a line stands, or would stand."""


class SortedLines:
    """The lines of a view by the values of a column; equal ones as they came."""

    raw = False

    def __init__(self, view: View, index: Index, column: str, is_falling: bool) -> None:
        """`column` is one of `SORTABLE`."""
        self.column = column
        self.is_falling = is_falling
        self.is_cut = False
        """Whether only the foremost lines are shown."""
        self.lines: Sequence[int] = ()
        self._view = view
        self._index = index
        self._places: dict[int, int] = {}
        self._version: object = None
        self._due = 0.0

    def update(self, *, at_once: bool = False) -> bool:
        """Sort again where lines came or changed, not more often than is worth it; True when it was done."""
        lines, began = self._view.lines, monotonic()
        version = (self._index.version, len(lines))
        if version == self._version or (began < self._due and not at_once):
            return False
        self._version = version
        key = _KEYS[self.column](self._index)
        self.is_cut = len(lines) > MOST_SORTED
        if not self.is_cut:
            self.lines = sorted(lines, key=key, reverse=self.is_falling)
        else:
            foremost = heapq.nlargest if self.is_falling else heapq.nsmallest
            self.lines = foremost(MOST_FOUND, lines, key)
        self._places = {line: at for at, line in enumerate(self.lines)}
        self._due = began + max(_PERIOD_S, 10 * (monotonic() - began))
        return True

    def position(self, line: int) -> int:
        """Where a line stands; behind all others for one that is not among them."""
        return self._places.get(line, len(self.lines))


Key = Callable[[int], Any]


def _by_duration(index: Index) -> Key:
    started, ended, now = index.table.started, index.table.ended, time()

    def took(row: int) -> float:
        end = ended[row]
        return (end if end == end else now) - started[row]

    return took


def _by_size(index: Index) -> Key:
    size, whole = index.table.size, index.operations.whole
    return lambda row: size[whole.get(row, row)]


def _by_status(index: Index) -> Key:
    status = index.table.status
    return lambda row: _STATUS_RANKS[status[row]]


def _by_message(index: Index) -> Key:
    label, labels = index.table.label, dict(index.table.labels)
    return lambda row: labels.get(label[row], ("", ""))


def _by_peer(index: Index) -> Key:
    connection = index.table.connection
    peers = {number: info.peer for number, info in dict(index.connections).items()}
    return lambda row: peers.get(connection[row], "")


def _by_id(index: Index) -> Key:
    identifiers = index.table.id

    def key(row: int) -> tuple[int, Id]:
        identifier = identifiers[row]
        if identifier is None:
            return (2, "")
        return (1, identifier) if isinstance(identifier, str) else (0, identifier)

    return key


def _by_revision(index: Index) -> Key:
    revision = index.revision
    return lambda row: revision(row)


_KEYS: Mapping[str, Callable[[Index], Key]] = {
    "took": _by_duration,
    "size": _by_size,
    "status": _by_status,
    "what": _by_message,
    "peer": _by_peer,
    "id": _by_id,
    "revision": _by_revision,
}


class UnfoldedLines(Sequence[int]):
    """Numbers of exchanges, or of frames in raw form. What is unfolded stands below its line."""

    def __init__(self, source: ShownLines, unfolded: int | None = None, below: Sequence[int] = ()) -> None:
        """`below` are the lines that belong to `unfolded`."""
        self._lines = source.lines
        self._source = source
        self._below: Sequence[int] = ()
        self._at = 0
        if unfolded is not None and not source.raw:
            at = source.position(unfolded)
            if at < len(self._lines) and self._lines[at] == unfolded:
                self._below, self._at = below, at + 1

    def __len__(self) -> int:
        return len(self._lines) + len(self._below)

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[int]: ...
    def __getitem__(self, position: int | slice) -> int | Sequence[int]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        below = position - self._at
        if below < 0 or not self._below:
            return self._lines[position]
        return self._below[below] if below < len(self._below) else self._lines[position - len(self._below)]

    def position(self, line: int) -> int:
        """Where a line stands, or would stand."""
        if line in self._below:
            return self._at + self._below.index(line)
        position = self._source.position(line)
        return position + len(self._below) if self._below and position >= self._at else position

    def is_below(self, position: int) -> bool:
        """Whether the line at a position belongs to what is unfolded."""
        return 0 <= position - self._at < len(self._below)
