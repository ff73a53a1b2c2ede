"""Table of exchanges in columns. A row needs about 145 bytes and no Python object of its own."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence, Sequence
from math import nan
from typing import Any, Generic, TypeAlias, TypeVar, cast

from mcpdesk.recorder.index.exchange import KINDS, STATUSES, ExchangeKind, Id, Status
from mcpdesk.recorder.index.message_heads import Head
from mcpdesk.recorder.record import Frame

NO_FRAME = NO_ROW = -1
"""Value in a column for a frame, or a row, that does not exist."""
_INITIAL_STATUSES = {
    ExchangeKind.REQUEST: Status.PENDING,
    ExchangeKind.NOTIFICATION: Status.SENT,
    ExchangeKind.RESPONSE: Status.LATE,
    ExchangeKind.MALFORMED: Status.MALFORMED,
}
"""Initial status of an exchange, by the kind of its first message."""

_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}

Label = tuple[str, str]
"""Method and name of an exchange."""


class Table:
    """Table with one row for each exchange. The number of the row is the number of the exchange.

    A rolling table can drop its oldest rows.
    """

    def __init__(self, *, rolling: bool = False) -> None:
        self.base = 0
        """Number of the oldest row."""
        self._columns: list[Any] = []
        self._is_rolling = rolling
        self.kind: ColumnValues[int] = self._column("B")
        self.status: ColumnValues[int] = self._column("B")
        self.direction: ColumnValues[int] = self._column("B")
        self.server_s: ColumnValues[float] = self._column("f")
        """Seconds that the server took for its last answer, without waiting for clients and people."""
        self.connection: ColumnValues[int] = self._column("q")
        self.label: ColumnValues[int] = self._column("l")
        """Code of the label; see `labels`."""
        self.revision: ColumnValues[int] = self._column("H")
        """Position of the revision in `revisions`."""
        self.first: ColumnValues[int] = self._column("q")
        """Frame for which the row was created. It never decreases from row to row."""
        self.request: ColumnValues[int] = self._column("q")
        self.response: ColumnValues[int] = self._column("q")
        self.started: ColumnValues[float] = self._column("d")
        self.ended: ColumnValues[float] = self._column("d")
        """Unix time of the end. NaN while the exchange is pending."""
        self.size: ColumnValues[int] = self._column("Q")
        """Size in bytes of all requests and responses."""
        self.request_size: ColumnValues[int] = self._column("Q")
        """Size in bytes of the request, which is part of `size`."""
        self.tokens: ColumnValues[int] = self._column("L")
        """Approximate number of tokens in the result."""
        self.under: ColumnValues[int] = self._column("q")
        """Row of the call that a notification belongs to. `NO_ROW` if it has its own line."""
        self.id: ColumnValues[Id | None] = self._column("")
        self.person_s: dict[int, float] = {}
        """Seconds for which an exchange waited for people, by row. Only rows that waited are included."""
        self.labels: dict[int, Label] = {}
        """Labels by code. A code is never used for another label."""
        self.revisions: list[str] = [""]
        self._label_of: dict[Label, int] = {}
        """Code of each label."""
        self._next_label = 0

    def __len__(self) -> int:
        return len(self.kind)

    def _column(self, code: str) -> Any:
        """Create an empty column. `code` is the type code of an array, or empty for Python objects."""
        column = column_of(code, rolling=self._is_rolling)
        self._columns.append(column)
        return column

    def drop(self, base: int) -> frozenset[int]:
        """Drop the rows before `base`. Return the codes of labels that are no longer used."""
        self.base = base
        for column in self._columns:
            column.drop(base)
        for row in [row for row in self.person_s if row < base]:
            del self.person_s[row]
        used_codes = {self.label[row] for row in range(base, len(self))}
        unused_codes = frozenset(self.labels.keys() - used_codes)
        for code in unused_codes:
            del self._label_of[self.labels.pop(code)]
        return unused_codes

    def copy(self, row: int, first: int) -> int:
        """Append a copy of a row and return the new number. `first` is the newest frame."""
        for column in self._columns:
            column.append(first if column is self.first else column[row])
        return len(self) - 1

    def add(self, head: Head, frame: Frame) -> int:
        """Append a row for a message that begins an exchange. Return its number."""
        number, direction = frame.number, frame.direction
        status = _INITIAL_STATUSES[head.kind]
        is_first_message = status is not Status.LATE
        label = self._label_of.get((head.method, head.name))
        self.status.append(_STATUS_CODES[status])
        self.direction.append(direction if is_first_message else 1 - direction)
        self.server_s.append(0.0)
        self.connection.append(frame.connection)
        self.label.append(self._add_label(head.method, head.name) if label is None else label)
        self.revision.append(self.revision_code(head.revision) if head.revision else 0)
        self.first.append(number)
        self.request.append(number if is_first_message else NO_FRAME)
        self.response.append(NO_FRAME if is_first_message else number)
        self.started.append(frame.time)
        self.ended.append(nan if status is Status.PENDING else frame.time)
        self.size.append(frame.size)
        self.request_size.append(frame.size if is_first_message else 0)
        self.tokens.append(0)
        self.under.append(NO_ROW)
        self.id.append(head.id)
        self.kind.append(_KIND_CODES[head.kind])
        return len(self.kind) - 1

    def answer(self, row: int, frame: Frame, status: Status) -> float:
        """Set the response of a row. Return the duration in seconds, without waiting for people."""
        self.status[row] = _STATUS_CODES[status]
        self.response[row] = frame.number
        self.size[row] += frame.size
        self.ended[row] = frame.time
        duration_s = frame.time - self.started[row]
        if frame.phases is None or not frame.phases.person:
            return duration_s
        self.person_s[row] = frame.phases.person / 1e6
        return max(0.0, duration_s - self.person_s[row])

    def end(self, row: int, time: float, status: Status) -> None:
        """End a row without a response."""
        self.status[row] = _STATUS_CODES[status]
        self.ended[row] = time

    def resume(self, row: int, size: int) -> None:
        """Mark a row with a response as pending again, because another request of `size` bytes arrived."""
        self.status[row] = _STATUS_CODES[Status.PENDING]
        self.ended[row] = nan
        self.size[row] += size
        self.request_size[row] += size

    def conclude(self, row: int, last_round: int, size: int) -> None:
        """End a row with the status and time of row `last_round`. The response of that round has `size`
        bytes.
        """
        self.status[row] = self.status[last_round]
        self.ended[row] = self.ended[last_round]
        self.server_s[row] = max(self.server_s[row], self.server_s[last_round])
        self.size[row] += size
        self.tokens[row] = self.tokens[last_round]
        if last_round in self.person_s:
            self.person_s[row] = self.person_s.get(row, 0.0) + self.person_s[last_round]

    def method(self, row: int) -> str:
        """Return the method of a row."""
        return self.labels[self.label[row]][0]

    def revision_code(self, revision: str) -> int:
        """Return the code of a revision. 0 if there are too many, because a peer may invent revisions."""
        if revision in self.revisions:
            return self.revisions.index(revision)
        if len(self.revisions) > 100:
            return 0
        self.revisions.append(revision)
        return len(self.revisions) - 1

    def _add_label(self, method: str, name: str) -> int:
        """Store a new label and return its code."""
        code = self._label_of[method, name] = self._next_label
        self.labels[code] = (method, name)
        self._next_label += 1
        return code


Value = TypeVar("Value")


class RollingColumn(Generic[Value]):
    """Column whose oldest values can be dropped. Positions count all values that were ever appended.

    Only one thread changes the column. Other threads may read it; they see the state before or after a
    `drop`.
    """

    __slots__ = ("_base_and_values",)

    def __init__(self, code: str = "") -> None:
        """`code` is the type code of an array. Empty for Python objects."""
        values: Any = array(code) if code else []
        self._base_and_values: tuple[int, MutableSequence[Value]] = (0, values)

    @property
    def base(self) -> int:
        """Position of the oldest value."""
        return self._base_and_values[0]

    def append(self, value: Value, /) -> None:
        """Append a value."""
        self._base_and_values[1].append(value)

    def drop(self, base: int) -> None:
        """Drop the values before position `base`."""
        old_base, values = self._base_and_values
        if base > old_base:
            self._base_and_values = base, values[base - old_base :]

    def between(self, start: int, stop: int) -> MutableSequence[Value]:
        """Return a copy of the values from `start` up to `stop` that still exist."""
        base, values = self._base_and_values
        return values[max(0, start - base) : max(0, stop - base)]

    def __len__(self) -> int:
        base, values = self._base_and_values
        return base + len(values)

    def __getitem__(self, position: int, /) -> Value:
        base, values = self._base_and_values
        if position < base:
            raise IndexError(f"{position} was dropped; the oldest is {base}")
        return values[position - base]

    def __setitem__(self, position: int, value: Value, /) -> None:
        base, values = self._base_and_values
        if position >= base:
            values[position - base] = value


ColumnValues: TypeAlias = RollingColumn[Value] | MutableSequence[Value]
"""Column of a table. A rolling column can drop its oldest values."""


def column_of(code: str, *, rolling: bool) -> Any:
    """Create an empty column. `code` is the type code of an array, or empty for Python objects."""
    if rolling:
        return RollingColumn[Any](code)
    return array(code) if code else []


def between(values: ColumnValues[Any], start: int, stop: int) -> Sequence[Any]:
    """Return a copy of the values of a column from `start` up to `stop`."""
    if isinstance(values, RollingColumn):
        return values.between(start, stop)
    return cast("Sequence[Any]", values)[start:stop]
