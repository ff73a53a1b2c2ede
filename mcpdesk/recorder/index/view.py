"""Lines of an index that match a filter. Each update takes a limited time, while exchanges arrive and change.

A line is the number of an exchange or, in raw form, of a frame. Lines are in ascending order. An exchange
that is part of another has no separate line: the line of the other exchange is shown if any part matches. A
mark is a recorded decision about a held message.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isnan
from time import perf_counter, time

from mcpdesk.protocol.methods import TOOL_CALLS, canonical
from mcpdesk.recorder.index.exchange import KINDS, STATUSES, ExchangeKind, Status
from mcpdesk.recorder.index.query import (
    CORE_FIELD,
    EVERYTHING,
    About,
    All,
    AnyOf,
    Field,
    Limit,
    Node,
    Not,
    StartedSince,
    StartedWithin,
    Word,
)
from mcpdesk.recorder.index.table import NO_FRAME, NO_ROW, ColumnValues, RollingColumn
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import BY_HAND, BY_MOCK, FAULT

_SEPARATOR = b"\0"
"""Byte between frames that are searched together. It does not occur in JSON."""
_BLOCK_FRAMES = 128
"""Number of frames that are searched together. The size of a segment is a multiple of it."""
_LATEST_ROWS = 1_000
"""Number of latest rows and lines that are tested again when the limits of slow calls change."""
_MAX_CHANGED_LINES = 50_000
"""Number of added and removed lines that are kept. The list is shortened when it is twice as long."""
_MAX_RETESTED_ROWS = 200
"""Maximum number of pending rows that each update tests again, because their result may change as time
passes.
"""


class View:
    """Lines of an index that match a filter."""

    def __init__(self, index: Index, node: Node = EVERYTHING, *, raw: bool = False) -> None:
        """If `raw`, the lines are frames instead of exchanges."""
        self.raw = raw
        self._index = index
        self._table = index.table
        self._operations = index.operations
        self._is_all = node == EVERYTHING
        self._matcher = Matcher(index, node, raw=raw)
        self._lines: array[int] = array("q")
        self.moved = RollingColumn[int]("q")
        """Lines that were removed, or added before the end, in the order of these changes.

        Only the latest are kept.
        """
        self._held_state: tuple[array[int], int] | None = None
        """All lines, and the number of paired frames, when `hold` was called. None if lines are added."""
        self._rows = 0
        """Number of rows that were tested or dropped."""
        self._frames = 0
        """Number of frames that were searched or dropped."""
        self._base = 0
        """Oldest row that was not dropped at the last update."""
        self._altered = len(index.altered)
        """Number of changes in `Index.altered` that were handled."""
        self._marks = len(index.marks)
        """Number of marks that were handled."""
        self._includes_notifications = not _negates(node)
        """True if a call is also shown when one of its notifications matches.

        False for filters with `not`.
        """
        self._lines_of_notifications: set[int] = set()
        """Lines that are shown because one of their notifications matches."""
        self._span_starts = [self._first_row_since(time() - span) for span in self._matcher.spans]
        """For each time span of the filter: the first row that was within the span at the last test."""
        self._tested_slow_version = 0
        """Version of the limits of slow calls at the last test."""

    @property
    def lines(self) -> Sequence[int]:
        """Matching lines in ascending order."""
        if not self._is_all:
            return self._lines
        lines, frames = self._held_state or (self._operations.lines, self._index.paired)
        return range(min(self._index.first_frame, frames), frames) if self.raw else lines

    @property
    def total(self) -> int:
        """Number of lines without a filter."""
        return self._index.paired - self._index.first_frame if self.raw else len(self._operations.lines)

    @property
    def done(self) -> float:
        """Fraction of the frames that were tested, from 0 to 1."""
        frames = self._held_state[1] if self._held_state else self._index.paired
        return 1.0 if self._is_all or not frames else self._frames / frames

    @property
    def held_back(self) -> int:
        """Number of lines that arrived since `hold`, including lines that do not match the filter."""
        if self._held_state is None:
            return 0
        lines, frames = self._held_state
        if self.raw:
            return self._index.paired - frames
        all_lines = self._operations.lines
        return len(all_lines) - bisect_right(all_lines, lines[-1]) if lines else len(all_lines)

    def hold(self) -> None:
        """Stop adding lines."""
        self._held_state = (self._operations.lines[:], self._index.paired)

    def release(self) -> None:
        """Add lines again. Lines that arrived since `hold` are added as well."""
        self._held_state = None

    def position(self, line: int) -> int:
        """Return the position of a line, or the position where it would be inserted."""
        return bisect_left(self.lines, line)

    def advance(self, budget_s: float = 0.005) -> bool:
        """Test rows for about `budget_s` seconds. Return True if lines may have changed."""
        if self._is_all:
            return False
        self._drop()
        if len(self.moved) - self.moved.base > 2 * _MAX_CHANGED_LINES:
            self.moved.drop(len(self.moved) - _MAX_CHANGED_LINES)
        old_state = len(self._lines), self._rows, self._altered
        deadline = perf_counter() + budget_s
        try:
            while self._step():
                if perf_counter() > deadline:
                    break
        except IndexError:
            if self._table.base == self._base:
                raise
            return True  # another thread dropped these rows; the next call continues after them
        if self._matcher.depends_on_marks and not self._held_state:
            self._retest_marked()
        if self._matcher.depends_on_clock and not self._held_state:
            self._retest([row for row in self._index.pending()[-_MAX_RETESTED_ROWS:] if row < self._rows])
        if (
            self._matcher.depends_on_slow_limits
            and not self._held_state
            and self._tested_slow_version != self._index.slow_version
        ):
            self._tested_slow_version = self._index.slow_version
            self._retest(self._latest_rows())
        if not self._held_state:
            for span_index, span in enumerate(self._matcher.spans):
                self._retest_aged(span_index, time() - span, deadline)
        return old_state != (len(self._lines), self._rows, self._altered)

    def _latest_rows(self) -> list[int]:
        """Return the rows of the last lines, and the latest rows that were tested."""
        lines = [] if self.raw else self._lines[-_LATEST_ROWS:]
        return sorted({*lines, *range(max(self._table.base, self._rows - _LATEST_ROWS), self._rows)})

    def _first_row_since(self, moment: float) -> int:
        """Return the first row that began at or after a time."""
        started = self._table.started
        return bisect_left(started, moment, lo=self._table.base)

    def _retest_aged(self, span_index: int, moment: float, deadline: float) -> None:
        """Test the rows again that have left a time span of the filter since the last test.

        `moment` is the Unix time in seconds at which the span begins now.
        """
        started, base = self._table.started, self._table.base
        row = max(self._span_starts[span_index], base)
        while row < self._rows and started[row] < moment and perf_counter() < deadline:
            line = row if self.raw else self._index.line_of(row)
            folded_rows = [] if self.raw else self._index.folded_in(line)
            self._lines_of_notifications.discard(line)
            rows = {line, row, *folded_rows}
            self._retest([tested_row for tested_row in rows if base <= tested_row < self._rows])
            row += 1
        self._span_starts[span_index] = row

    def _drop(self) -> None:
        """Remove lines that the index has dropped."""
        base, first_frame = self._table.base, self._index.first_frame
        if base <= self._base:
            return
        self._base = base
        self._rows = max(self._rows, base)
        self._frames = max(self._frames, first_frame)
        self._altered = max(self._altered, self._index.altered.base)
        del self._lines[: bisect_left(self._lines, first_frame if self.raw else base)]
        self._lines_of_notifications = {line for line in self._lines_of_notifications if line >= base}
        for needle in self._matcher.needles:
            needle.frames.difference_update([frame for frame in needle.frames if frame < first_frame])

    def _step(self) -> bool:
        """Handle one block of frames, and the rows that begin in it.

        Return False if nothing was left to do.
        """
        has_more_altered = self._held_state is None and self._retest_altered()
        paired_frames = self._held_state[1] if self._held_state else self._index.paired
        stop = min((self._frames | _BLOCK_FRAMES - 1) + 1, paired_frames)
        if self._matcher.needles and self._index.fetched_until is not None:
            stop = self._index.fetched_until(self._frames, stop)
        if stop <= self._frames:
            return has_more_altered
        self._search(self._frames, stop)
        rows = range(self._rows, bisect_left(self._table.first, stop, lo=self._rows))
        matching = self._matcher.keep(rows)
        self._frames, self._rows = stop, rows.stop
        self._show_rows(matching)
        return True

    def _show_rows(self, rows: Sequence[int]) -> None:
        """Show the lines of matching rows. Rows of notifications show the line of their call."""
        if self.raw:
            for row in rows:
                self._show_row(row)
            return
        if not self._index.has_folded:
            self._lines.extend(rows)
            return
        line_of, under, base = self._index.line_of, self._table.under, self._table.base
        latest_call = NO_ROW
        for row in rows:
            call = under[row]
            if call == NO_ROW:
                self._show_row(line_of(row))
            elif call >= base and call != latest_call and self._includes_notifications:
                self._lines_of_notifications.add(call)
                self._show_row(call)
                latest_call = call

    def _search(self, start: int, stop: int) -> None:
        """Search frames for the words of the filter. A new frame may also make an earlier row match."""
        read_block = self._index.raw if self._matcher.needles else None
        block = read_block(start, stop) if read_block else None
        if block is not None:
            block = block.lower()
            if not any(needle.bytes in block for needle in self._matcher.needles):
                return
        while self._matcher.needles and start < stop:
            pieces = self._index.data(start, stop)
            self._search_pieces(start, pieces)
            start += len(pieces)

    def _search_pieces(self, start: int, pieces: Sequence[bytes]) -> None:
        """Search some frames. `start` is the number of the first one."""
        block = _SEPARATOR.join(pieces).lower()
        needles = [needle for needle in self._matcher.needles if needle.bytes in block]
        if not needles:
            return
        if len(lower_pieces := block.split(_SEPARATOR)) != len(pieces):
            lower_pieces = [piece.lower() for piece in pieces]
        row_of = self._index.row_of
        for needle in needles:
            new_frames = needle.scan(start, lower_pieces)
            earlier_row_frames = [frame for frame in new_frames if row_of[frame] < self._rows]
            rows = [row for frame in earlier_row_frames for row in self._index.rows_of(frame)]
            self._retest([row for row in rows if row < self._rows])

    def _retest_altered(self) -> bool:
        """Test some changed rows again. Return True if more changed rows must be tested."""
        altered = self._index.altered
        stop = min(self._altered + _BLOCK_FRAMES, len(altered))
        base = self._table.base
        changed_rows = set(altered.between(self._altered, stop))
        self._retest([row for row in changed_rows if base <= row < self._rows])
        self._altered = stop
        return stop < len(altered)

    def _retest_marked(self) -> None:
        """Test rows with new marks again, because marks are recorded after the messages."""
        marks = self._index.marks
        while self._marks < len(marks):
            mark = marks[self._marks]
            self._marks += 1
            self._retest(self._index.rows_for_mark(mark, self._rows))

    def _retest(self, tested_rows: Sequence[int]) -> None:
        """Test rows again, together with the other rows of their operations.

        Rows that were never tested are skipped.
        """
        if not tested_rows:
            return
        if not self.raw:
            under = self._table.under
            notification_rows = [row for row in tested_rows if under[row] != NO_ROW]
            self._show_rows(self._matcher.keep(notification_rows))
            if notification_rows:
                excluded_rows = set(notification_rows)
                tested_rows = [row for row in tested_rows if row not in excluded_rows]
        old_rows = self._rows
        operations = [
            (line, [row for row in rows if row < old_rows])
            for line, rows in self._operations.with_parts(tested_rows)
        ]
        if self.raw:
            operations = [(row, [row]) for _, rows in operations for row in rows]
        matching = set(self._matcher.keep([row for _, rows in operations for row in rows]))
        for line, rows in operations:
            if matching.isdisjoint(rows) and line not in self._lines_of_notifications:
                self._hide_row(line)
            else:
                self._show_row(line)

    def _lines_of(self, row: int) -> list[int]:
        """Return the lines that show a row: the row itself or, in raw form, its frames."""
        if not self.raw:
            return [row]
        oldest_frame = self._index.first_frame
        frames = (self._table.request[row], self._table.response[row])
        return [frame for frame in frames if frame != NO_FRAME and frame >= oldest_frame]

    def _show_row(self, row: int) -> None:
        """Add the lines of a row that are not shown yet."""
        lines = self._lines
        for line in self._lines_of(row):
            if not lines or line > lines[-1]:
                lines.append(line)
            elif lines[index := bisect_left(lines, line)] != line:
                lines.insert(index, line)
                self.moved.append(line)

    def _hide_row(self, row: int) -> None:
        """Remove the lines of a row."""
        lines = self._lines
        for line in self._lines_of(row):
            index = bisect_left(lines, line)
            if index < len(lines) and lines[index] == line:
                del lines[index]
                self.moved.append(line)


def _negates(node: Node) -> bool:
    """Return True if a filter contains `not`."""
    if isinstance(node, All | AnyOf):
        return any(map(_negates, node.nodes))
    return isinstance(node, Not)


Rows = Sequence[int]
RowFilter = Callable[[Rows], Rows]
Comparison = Callable[[float, float], bool]
_MAX_CACHED_LABELS = 10_000
"""Maximum number of labels for which a filter remembers its result."""


class Needle:
    """Text to search for, and the numbers of the frames that contain the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.frames: set[int] = set()
        self.bytes = text.encode("utf-8", "surrogatepass")

    def scan(self, start: int, pieces: Sequence[bytes]) -> list[int]:
        """Search successive frames, given in lower case.

        `start` is the number of the first one. Return the numbers of those with the text.
        """
        text = self.bytes
        frames = [start + index for index, piece in enumerate(pieces) if text in piece]
        self.frames.update(frames)
        return frames


class Matcher:
    """Filter that is compiled for one index."""

    def __init__(self, index: Index, node: Node, *, raw: bool = False) -> None:
        self._raw = raw
        self.needles: list[Needle] = []
        self.depends_on_clock = False
        """True if a pending row may begin to match although no message arrives."""
        self.depends_on_slow_limits = False
        """True if a row may match, or no longer match, when the limits of slow calls change."""
        self.spans: list[float] = []
        """Time spans in seconds, measured from the start of a row.

        When a span has passed, the row may match or stop matching.
        """
        self.depends_on_marks = False
        """True if a mark can make a row match."""
        self._index = index
        self._table = index.table
        self._operation_of = index.operations.operation_of
        self.keep = self._compile(node)
        """Function that returns those of the given rows that match."""

    def _compile(self, node: Node) -> RowFilter:
        """Return the function that selects the rows that match a node."""
        match node:
            case All(nodes):
                return _every([self._compile(part) for part in nodes])
            case AnyOf(nodes):
                return _any([self._compile(part) for part in nodes])
            case Not(inner):
                return _none(self._compile(inner))
            case Word(text):
                return self._word(text)
            case StartedSince(moment):
                started = self._table.started
                return lambda rows: [row for row in rows if started[row] >= moment]
            case StartedWithin(seconds):
                started = self._table.started
                self.spans.append(seconds)
                return lambda rows: [row for row in rows if started[row] >= time() - seconds]
            case Limit("size", sign, bound):
                return self._size(_SIGNS[sign], bound)
            case Limit(_, sign, bound):
                return self._elapsed(_SIGNS[sign], bound)
            case Field(name, values):
                return self._field(name, values)
            case About(server, method, is_name):
                by_server = _by_code(
                    self._table.connection, lambda number: self._connection_text(number, "server") == server
                )
                by_item = self._by_label(lambda sent, name: canonical(sent) == method and is_name(name))
                return _every([by_server, self._of_calls(by_item)])

    def _word(self, text: str) -> RowFilter:
        """Match a text in the frames of a row, or in the name of its peer."""
        needle = Needle(text)
        self.needles.append(needle)
        table, frames = self._table, needle.frames
        by_peer = self._field("peer", (text,))

        def keep(rows: Rows) -> Rows:
            peer_rows = by_peer(rows)
            if not frames:
                return peer_rows
            matching = set(peer_rows)
            return [
                row
                for row in rows
                if table.request[row] in frames or table.response[row] in frames or row in matching
            ]

        return keep

    def _size(self, compare: Comparison, bound: float) -> RowFilter:
        """Match the size of the operation that a row belongs to."""
        size, operation_of = self._table.size, self._operation_of
        return lambda rows: [row for row in rows if compare(size[operation_of.get(row, row)], bound)]

    def _elapsed(self, compare: Comparison, bound: float) -> RowFilter:
        """Match the duration of the operation that a row belongs to. Only requests have a duration."""
        table, operation_of = self._table, self._operation_of
        self.depends_on_clock = True

        def elapsed(row: int, now: float) -> float:
            ended = table.ended[row]
            return (now if isnan(ended) else ended) - table.started[row]

        def keep(rows: Rows) -> Rows:
            now = time()
            request_rows = [row for row in rows if KINDS[table.kind[row]] is ExchangeKind.REQUEST]
            return [row for row in request_rows if compare(elapsed(operation_of.get(row, row), now), bound)]

        return keep

    def _field(self, name: str, values: tuple[str, ...]) -> RowFilter:
        """Match one of the values of a field."""
        table, index = self._table, self._index
        if name == CORE_FIELD:
            return self._by_connection_field("core", values)
        match name:
            case "method":
                return self._by_label(lambda method, _: _contains_any(method, values))
            case "name":
                return self._of_calls(self._by_label(lambda _, name: _contains_any(name, values)))
            case "tool":
                return self._of_calls(
                    self._by_label(lambda method, name: method in TOOL_CALLS and _contains_any(name, values))
                )
            case "peer" | "server":
                return self._by_connection_field(name, values)
            case "kind":
                return _by_code(table.kind, lambda kind: KINDS[kind].value in values)
            case "dir":
                return _by_code(table.direction, lambda direction: ("in", "out")[direction] in values)
            case "rev":
                return lambda rows: [row for row in rows if _contains_any(index.revision(row), values)]
            case "id":
                return lambda rows: [row for row in rows if _is_matching_id(table.id[row], values)]
            case "is":
                return self._in_state(values)
            case _:
                return self._by_status(values)

    def _of_calls(self, keep: RowFilter) -> RowFilter:
        """Apply a condition on a call to its notifications as well."""
        under, index = self._table.under, self._index
        if self._raw:
            return keep

        def keep_with_notifications(rows: Rows) -> Rows:
            if not index.has_folded:
                return keep(rows)
            base = self._table.base
            calls = [call if (call := under[row]) >= base else row for row in rows]
            matching_calls = set(keep(calls))
            return [row for row, call in zip(rows, calls, strict=True) if call in matching_calls]

        return keep_with_notifications

    def _by_label(self, is_match: Callable[[str, str], bool]) -> RowFilter:
        """Match the method and name of a row."""
        labels = self._table.labels
        return _by_code(
            self._table.label, lru_cache(_MAX_CACHED_LABELS)(lambda label: is_match(*labels[label]))
        )

    def _by_connection_field(self, name: str, values: tuple[str, ...]) -> RowFilter:
        """Match the peer, server or core of a row's connection."""
        # Tested each time, because names of peers may become known late.
        return _by_code(
            self._table.connection, lambda number: _contains_any(self._connection_text(number, name), values)
        )

    def _connection_text(self, connection: int, name: str) -> str:
        """Return the peer, server or core of a connection, or "" if it is unknown."""
        info = self._index.connections.get(connection)
        return "" if info is None else str(getattr(info, name))

    def _in_state(self, values: tuple[str, ...]) -> RowFilter:
        """Match rows that are held at the desk, that were changed, answered or dropped there, or that belong
        to the negotiation."""
        table, index, operation_of = self._table, self._index, self._operation_of
        tests = [_DESK_STATE_TESTS[value] for value in values if value in _DESK_STATE_TESTS]
        includes_held = "held" in values
        negotiation = STATUSES.index(Status.NEGOTIATION) if Status.NEGOTIATION.value in values else -1
        self.depends_on_marks = self.depends_on_marks or bool(tests)
        self.depends_on_clock = self.depends_on_clock or includes_held

        def is_in_state(row: int) -> bool:
            if table.status[operation_of.get(row, row)] == negotiation:
                return True
            is_held = includes_held and (table.connection[row], table.id[row]) in index.held
            if is_held and isnan(table.ended[row]):  # the exchange is pending
                return True
            return bool(tests) and any(test(mark.how) for mark in index.marks_at(row) for test in tests)

        return lambda rows: [row for row in rows if is_in_state(row)]

    def _by_status(self, values: tuple[str, ...]) -> RowFilter:
        """Match the status of the operation that a row belongs to."""
        table, operation_of = self._table, self._operation_of
        codes = {code for code, status in enumerate(STATUSES) if status.value in values}
        includes_slow, is_slow = "slow" in values, self._index.is_slow
        self.depends_on_slow_limits = self.depends_on_slow_limits or includes_slow

        def keep(rows: Rows) -> Rows:
            line_rows = [operation_of.get(row, row) for row in rows] if operation_of else rows
            pairs = zip(rows, line_rows, strict=True)
            return [
                row for row, line in pairs if table.status[line] in codes or (includes_slow and is_slow(line))
            ]

        return keep


_DESK_STATE_TESTS: dict[str, Callable[[str], bool]] = {
    "held": lambda how: FAULT not in how and how != BY_MOCK,
    "changed": lambda how: how.endswith("changed"),
    "answered": lambda how: how.endswith(BY_HAND),
    "dropped": lambda how: how.endswith("dropped"),
    "mocked": lambda how: how == BY_MOCK,
    "faulty": lambda how: FAULT in how,
}
"""Tests on `HeldMark.how`, by value of `is:`."""


def _every(parts: list[RowFilter]) -> RowFilter:
    """Match rows that all parts match."""

    def keep(rows: Rows) -> Rows:
        for part in parts:
            rows = part(rows)
        return rows

    return keep


def _any(parts: list[RowFilter]) -> RowFilter:
    """Match rows that at least one part matches."""

    def keep(rows: Rows) -> Rows:
        matching = {row for part in parts for row in part(rows)}
        return [row for row in rows if row in matching]

    return keep


def _none(part: RowFilter) -> RowFilter:
    """Match rows that a part does not match."""

    def keep(rows: Rows) -> Rows:
        excluded = set(part(rows))
        return [row for row in rows if row not in excluded]

    return keep


def _by_code(column: ColumnValues[int], is_match: Callable[[int], bool]) -> RowFilter:
    """Match rows by their value in a column. Each different value is tested once."""

    def keep(rows: Rows) -> Rows:
        codes = [column[row] for row in rows]
        matching_codes = {code for code in set(codes) if is_match(code)}
        if not matching_codes:
            return []
        return [row for row, code in zip(rows, codes, strict=True) if code in matching_codes]

    return keep


def _contains_any(text: str, values: tuple[str, ...]) -> bool:
    """Return True if a text contains one of the values, ignoring case."""
    lowered = text.lower()
    return any(value in lowered for value in values)


def _is_matching_id(identifier: object, values: tuple[str, ...]) -> bool:
    """Return True if an id is among the values; see `_ids` in `query`."""
    if isinstance(identifier, str):
        return identifier in values or f'"{identifier}' in values
    return identifier is not None and str(identifier) in values


_SIGNS: dict[str, Comparison] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
"""Comparison for each sign in a filter."""
