"""Lines of a view sorted by a column, fast for any number of lines.

Lines are put into pieces by their keys, a limited number at a time. A piece is sorted only when it is read.
New and changed lines are moved between pieces, so that most lines need not be sorted again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import isnan
from time import monotonic, perf_counter, time
from typing import Any, Final, overload

from mcpdesk.recorder.index.exchange import STATUSES, Id, Status
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View

_BLOCK_LINES = 2_048
"""Number of lines between two checks of the clock. A piece has about as many lines."""
_MAX_BOUNDS = 256
"""Maximum number of keys that separate the pieces."""
_SAMPLES = 4
"""Number of sampled keys for each bound between two pieces."""
_GOLDEN = 0.6180339887
"""Golden ratio minus 1. Its multiples, modulo 1, are spread evenly and have no pattern."""
_GROWTH = 4
"""Factor by which the number of lines must exceed the expected number before new bounds are chosen."""
_MIN_MOVE_PERIOD_S = 1.0
"""Minimum number of seconds between two moves of pending lines, whose durations grow."""
_NO_PIECE: Final = 0xFFFF
"""Number in place of a piece for a line that is not included."""
_STATUS_ORDER = (
    Status.MALFORMED, Status.LOST, Status.ERROR, Status.TOOL_ERROR, Status.LATE, Status.LEFT,
    Status.CANCELLED, Status.ASKS, Status.PENDING, Status.OK, Status.NEGOTIATION, Status.SENT,
)  # fmt: skip
"""Statuses in the order of a list that is sorted by status. Failures come first."""
_STATUS_RANKS = [_STATUS_ORDER.index(status) for status in STATUSES]
Key = Callable[[int], Any]
"""Function that returns the value by which a line is sorted."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """Value by which lines are sorted."""

    of: Callable[[Index], Key]
    """Function that takes an index, and returns a function for the value of a line."""
    largest_first: bool = False
    """True if the largest value comes first, unless the order is reversed."""
    connection_field: str = ""
    """Field of the connection that has the value, or "" if the value has another source.

    The value of such a field may become known late.
    """
    is_growing: bool = False
    """True if the values of pending requests grow with time."""


class SortedLines:
    """Lines of a view sorted by a column. Lines with equal values stay in their order."""

    raw = False
    """Always False, because only lines of exchanges can be sorted; see `View.raw`."""

    def __init__(self, view: View, index: Index, column: str, key: SortKey, is_descending: bool) -> None:
        """`column` is the name of the column with the values of `key`.

        Before the first call of `advance`, the sequence is empty.
        """
        self.column = column
        self.is_descending = is_descending
        self._key = key
        self._view = view
        self._index = index
        self._pieces = self._new_pieces = LinePieces([], lambda line: line, is_descending)
        self._next = 0
        """First line that is not in a piece yet."""
        self._altered = self._moved = 0
        """Numbers of handled changes in `Index.altered` and in `View.moved`."""
        self._base = 0
        """Oldest line that was not dropped."""
        self._connection_texts: Mapping[int, str] = {}
        """Values of `connection_field`, by connection, at the last update."""
        self._next_move_time = 0.0
        """Earliest monotonic time for the next move of pending lines."""
        self._start_new_pieces()
        self._pieces = self._new_pieces  # shown while they are filled, because no earlier order exists

    @property
    def lines(self) -> Sequence[int]:
        """Lines in order. While `done` is below 1, only the lines that are already in pieces."""
        return self._pieces

    @property
    def done(self) -> float:
        """Fraction of the lines that are sorted, from 0 to 1."""
        count = len(self._view.lines)
        return min(1.0, len(self._new_pieces) / count) if self._is_behind and count else 1.0

    def position(self, line: int) -> int:
        """Return the position of a line, or the position after all others if the line is not included."""
        return self._pieces.position(line)

    def advance(self, budget_s: float = 0.005) -> bool:
        """Update the order for about `budget_s` seconds. Return True if `lines` may have changed."""
        deadline = perf_counter() + budget_s
        has_changed = self._drop()
        self._new_pieces.key = self._pieces.key = self._key.of(self._index)
        if (
            len(self._new_pieces) > _GROWTH * max(_BLOCK_LINES, self._new_pieces.expected_count)
            or self._has_changed_texts()
        ):
            self._start_new_pieces()
        if self._moved < self._view.moved.base:
            self._start_new_pieces()  # some added or removed lines are no longer remembered
        while self._is_behind:
            self._add_block()
            has_changed = True
            if self._is_behind and perf_counter() > deadline:
                return self._pieces is self._new_pieces
        self._pieces = self._new_pieces
        while self._move_some():
            has_changed = True
            if perf_counter() > deadline:
                return True
        return self._move_pending() or has_changed

    @property
    def _is_behind(self) -> bool:
        """True if some lines are not in the new pieces yet."""
        lines = self._view.lines
        return bool(lines) and lines[-1] >= self._next

    def _start_new_pieces(self) -> None:
        """Start to put all lines into new pieces.

        The current order is kept until all lines are in new pieces.
        """
        lines, key = self._view.lines, self._key.of(self._index)
        self._altered, self._moved = len(self._index.altered), len(self._view.moved)
        self._base = self._index.table.base
        piece_count = min(_MAX_BOUNDS, len(lines) // _BLOCK_LINES)
        # Samples at equal distances would be biased if clients or tools alternate.
        shares = (number * _GOLDEN % 1.0 for number in range(piece_count * _SAMPLES))
        sample = (lines[int(share * len(lines))] for share in shares)
        bounds = sorted(map(key, sample))[_SAMPLES // 2 :: _SAMPLES]
        self._new_pieces = LinePieces(bounds, key, self.is_descending, expected_count=len(lines))
        self._new_pieces.drop(self._base)
        self._next = 0

    def _add_block(self) -> None:
        """Add one block of lines to the pieces."""
        lines = self._view.lines
        start = bisect_left(lines, self._next)
        block = lines[start : start + _BLOCK_LINES]
        self._new_pieces.add(block)
        self._next = block[-1] + 1

    def _move_some(self) -> bool:
        """Move some changed, added or removed lines. Return False if no line had to be moved."""
        altered, moved = self._index.altered, self._view.moved
        altered_start, moved_start = self._altered, self._moved
        self._altered = min(altered_start + _BLOCK_LINES, len(altered))
        self._moved = min(moved_start + _BLOCK_LINES, len(moved))
        altered_lines = map(self._index.line_of, altered.between(altered_start, self._altered))
        self._move({*altered_lines, *moved.between(moved_start, self._moved)})
        return self._altered > altered_start or self._moved > moved_start

    def _move_pending(self) -> bool:
        """Move the lines of pending requests from time to time, because their durations grow."""
        if not self._key.is_growing or monotonic() < self._next_move_time:
            return False
        start_time = monotonic()
        pending = self._index.pending()
        self._move(pending)
        self._next_move_time = start_time + max(_MIN_MOVE_PERIOD_S, 10 * (monotonic() - start_time))
        return bool(pending)

    def _move(self, changed: Iterable[int]) -> None:
        """Move some lines to the right piece. Lines that are not in the view are removed."""
        lines, pieces = self._view.lines, self._pieces
        for line in sorted(changed):
            if self._base <= line < self._next:
                pieces.remove(line)
                index = bisect_left(lines, line)
                if index < len(lines) and lines[index] == line:
                    pieces.add((line,))

    def _drop(self) -> bool:
        """Remove lines that the index has dropped."""
        if (base := self._index.table.base) <= self._base:
            return False
        self._base = base
        for pieces in {self._pieces, self._new_pieces}:
            pieces.drop(base)
        return True

    def _has_changed_texts(self) -> bool:
        """Return True if a name or a revision of a connection has changed."""
        field = self._key.connection_field
        if not field:
            return False
        old_texts, infos = self._connection_texts, _connections(self._index)
        self._connection_texts = {number: getattr(info, field) for number, info in infos.items()}
        return any(self._connection_texts.get(number, text) != text for number, text in old_texts.items())


class LinePieces(Sequence[int]):
    """Lines in pieces, in the order of their keys. A piece is sorted when it is read.

    Every second piece contains only lines with the same key. Such a piece may become long, but it needs no
    sorting, because its lines are already in ascending order.
    """

    def __init__(self, bounds: Iterable[Any], key: Key, is_descending: bool, expected_count: int = 0) -> None:
        """`bounds` are the keys that separate the pieces, in ascending order.

        `expected_count` is the expected number of lines.
        """
        self.key = key
        self.expected_count = expected_count
        self._is_descending = is_descending
        self._bounds = list(dict.fromkeys(bounds))
        self._pieces = [array("q") for _ in range(2 * len(self._bounds) + 1)]
        """Pieces in ascending order of their keys, even if the lines are shown in descending order."""
        self._unsorted: set[int] = set()
        """Numbers of the pieces that must be sorted before they are read."""
        self._piece_of = array("H")
        """Piece of each line. The index is the number of the line minus `_base`."""
        self._base = 0
        self._ends: list[int] | None = None
        """Number of lines up to the end of each piece, in the shown order, or None if the lines must be
        counted again.
        """

    def __len__(self) -> int:
        return self._piece_ends()[-1]

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[int]: ...
    def __getitem__(self, position: int | slice) -> int | Sequence[int]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        index = range(len(self))[position]
        ends = self._piece_ends()
        piece = bisect_right(ends, index)
        return self._sorted_piece(self._shown_position(piece))[index - ends[piece]]

    def __iter__(self) -> Iterator[int]:
        for piece in range(len(self._pieces)):
            yield from self._sorted_piece(self._shown_position(piece))

    def position(self, line: int) -> int:
        """Return the position of a line. If the line is not included, the position after all others."""
        number = self._piece_number(line)
        if number == _NO_PIECE:
            return len(self)
        piece = self._sorted_piece(number)
        index = bisect_left(piece, line) if number % 2 else piece.index(line)
        return self._piece_ends()[self._shown_position(number)] - len(piece) + index

    def add(self, lines: Sequence[int]) -> None:
        """Add lines that are not included yet."""
        bounds, pieces, count = self._bounds, self._pieces, len(self._bounds)
        highest = max(lines) - self._base
        self._piece_of.extend([_NO_PIECE] * (highest + 1 - len(self._piece_of)))
        piece_of, base, unsorted = self._piece_of, self._base, self._unsorted
        for line, key in zip(lines, map(self.key, lines), strict=True):
            index = bisect_left(bounds, key)
            is_bound = index < count and bounds[index] == key
            number = 2 * index + is_bound
            piece = pieces[number]
            if is_bound and piece and line < piece[-1]:
                insort(piece, line)
            else:
                piece.append(line)
            if not is_bound:
                unsorted.add(number)
            piece_of[line - base] = number
        self._ends = None

    def remove(self, line: int) -> None:
        """Remove a line if it is included."""
        number = self._piece_number(line)
        if number == _NO_PIECE:
            return
        piece = self._pieces[number]
        del piece[bisect_left(piece, line) if number % 2 else piece.index(line)]
        self._piece_of[line - self._base] = _NO_PIECE
        self._ends = None

    def drop(self, base: int) -> None:
        """Remove the lines before `base`."""
        for number, piece in enumerate(self._pieces):
            self._pieces[number] = array("q", [line for line in piece if line >= base])
        del self._piece_of[: base - self._base]
        self._base = base
        self._ends = None

    def _piece_number(self, line: int) -> int:
        """Return the number of the piece with a line, or `_NO_PIECE`."""
        index = line - self._base
        return self._piece_of[index] if 0 <= index < len(self._piece_of) else _NO_PIECE

    def _shown_position(self, number: int) -> int:
        """Convert between the number of a piece and its shown position, in either direction."""
        return len(self._pieces) - 1 - number if self._is_descending else number

    def _piece_ends(self) -> list[int]:
        """Return the number of lines up to the end of each piece, in the shown order."""
        if self._ends is None:
            pieces = reversed(self._pieces) if self._is_descending else self._pieces
            self._ends = list(accumulate(map(len, pieces)))
        return self._ends

    def _sorted_piece(self, number: int) -> array[int]:
        """Return a piece by its number. Sort it first if necessary."""
        if number in self._unsorted:
            self._unsorted.discard(number)
            ascending = sorted(self._pieces[number])
            self._pieces[number] = array("q", sorted(ascending, key=self.key, reverse=self._is_descending))
        return self._pieces[number]


def _connections(index: Index) -> Mapping[int, Any]:
    return dict(index.connections)


def _by_duration(index: Index) -> Key:
    started, ended, now = index.table.started, index.table.ended, time()

    def duration(row: int) -> float:
        end = ended[row]
        return (now if isnan(end) else end) - started[row]

    return duration


def _by_size(index: Index) -> Key:
    size, operation_of = index.table.size, index.operations.operation_of
    return lambda row: size[operation_of.get(row, row)]


def _by_status(index: Index) -> Key:
    status = index.table.status
    return lambda row: _STATUS_RANKS[status[row]]


def _by_message(index: Index) -> Key:
    label, labels = index.table.label, dict(index.table.labels)
    return lambda row: labels.get(label[row], ("", ""))


def _by_connection_field(index: Index, field: str) -> Key:
    connection = index.table.connection
    names = {number: getattr(info, field) for number, info in _connections(index).items()}
    return lambda row: names.get(connection[row], "")


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


BY_DURATION = SortKey(_by_duration, largest_first=True, is_growing=True)
BY_SIZE = SortKey(_by_size, largest_first=True)
BY_STATUS = SortKey(_by_status)
BY_MESSAGE = SortKey(_by_message)
BY_PEER = SortKey(partial(_by_connection_field, field="peer"), connection_field="peer")
BY_SERVER = SortKey(partial(_by_connection_field, field="server"), connection_field="server")
BY_ID = SortKey(_by_id)
BY_REVISION = SortKey(_by_revision, connection_field="revision")
