"""Exchanges in columns: about 130 bytes each, and nothing the garbage collector has to visit."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from math import nan
from typing import Any, Generic, Protocol, TypeVar

from mcpdesk.recorder.index.exchange import Code
from mcpdesk.recorder.index.message_heads import Head, Id
from mcpdesk.recorder.record import Frame

NO_FRAME = -1


Label = tuple[str, str]
"""Method and name: what exchanges of one sort have in common."""


class Table:
    """One row per exchange; a row is its number. A rolling table can drop its oldest rows."""

    def __init__(self, *, rolling: bool = False) -> None:
        self.base = 0
        """The oldest row there is."""
        self._rolling: list[RollingColumn[Any]] = []
        self._is_rolling = rolling
        self.kind = self._numbers("B")
        self.status = self._numbers("B")
        self.direction = self._numbers("B")
        self.slow = self._numbers("B")
        self.connection = self._numbers("q")
        self.label = self._numbers("l")
        self.revision = self._numbers("H")
        self.first = self._numbers("q")
        """The frame a row was made for; never falls from row to row."""
        self.request = self._numbers("q")
        self.response = self._numbers("q")
        self.started = self._times()
        self.ended = self._times()
        """NaN while pending."""
        self.size = self._numbers("Q")
        self.id: Column[Id | None] = self._rolling_one("") if rolling else []
        self.labels: dict[int, Label] = {}
        """By code. A code is never used again."""
        self.revisions: list[str] = [""]
        self._label_of: dict[Label, int] = {}
        self._next_label = 0

    def __len__(self) -> int:
        return len(self.kind)

    def _numbers(self, code: str) -> Column[int]:
        return self._rolling_one(code) if self._is_rolling else array(code)

    def _times(self) -> Column[float]:
        return self._rolling_one("d") if self._is_rolling else array("d")

    def _rolling_one(self, code: str) -> RollingColumn[Any]:
        column = RollingColumn[Any](code)
        self._rolling.append(column)
        return column

    def drop(self, base: int) -> frozenset[int]:
        """Drop the rows before `base`; returns the codes of the labels no row has any more."""
        self.base = base
        for column in self._rolling:
            column.drop(base)
        unused = frozenset(self.labels.keys() - {self.label[row] for row in range(base, len(self))})
        for code in unused:
            del self._label_of[self.labels.pop(code)]
        return unused

    def copy(self, row: int, first: int) -> int:
        """Make a new row with the values of another one; `first` is the newest frame."""
        for column in self._rolling:
            column.append(first if column is self.first else column[row])
        return len(self) - 1

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
        self.id.append(head.id)
        self.kind.append(kind)
        return len(self.kind) - 1

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
        code = self._label_of[method, name] = self._next_label
        self.labels[code] = (method, name)
        self._next_label += 1
        return code


Value = TypeVar("Value")


class Column(Protocol[Value]):
    """What the index needs of an array."""

    def append(self, value: Value, /) -> None:
        """Add a value at the end."""

    def __getitem__(self, at: int, /) -> Value: ...
    def __setitem__(self, at: int, value: Value, /) -> None: ...
    def __len__(self) -> int: ...


class RollingColumn(Generic[Value]):
    """A column that can drop its oldest values. Positions count from the first value there ever was.

    One thread changes it. Others may read at any time: what they see is from before a `drop` or after it.
    """

    __slots__ = ("_held",)

    def __init__(self, code: str = "") -> None:
        """`code` is the type code of an array; without it the values are any objects."""
        values: Any = array(code) if code else []
        self._held: tuple[int, MutableSequence[Value]] = (0, values)

    @property
    def base(self) -> int:
        """Position of the oldest value."""
        return self._held[0]

    def append(self, value: Value, /) -> None:
        """Add a value at the end."""
        self._held[1].append(value)

    def drop(self, base: int) -> None:
        """Drop the values before position `base`."""
        before, values = self._held
        if base > before:
            self._held = base, values[base - before :]

    def between(self, start: int, stop: int) -> MutableSequence[Value]:
        """A copy of the values from `start` up to `stop`, as far as they were not dropped."""
        base, values = self._held
        return values[max(0, start - base) : max(0, stop - base)]

    def __len__(self) -> int:
        base, values = self._held
        return base + len(values)

    def __getitem__(self, at: int, /) -> Value:
        base, values = self._held
        if at < base:
            raise IndexError(f"{at} was dropped; the oldest is {base}")
        return values[at - base]

    def __setitem__(self, at: int, value: Value, /) -> None:
        base, values = self._held
        if at >= base:
            values[at - base] = value
