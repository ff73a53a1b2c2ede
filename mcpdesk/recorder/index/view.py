"""Filters applied to an index, and the lines they leave.

They are kept up to date in slices, while exchanges come and change.

Lines are exchange numbers or, in raw form, frame numbers; either way they rise from line to line. Exchanges
that are part of another one have no line of their own: theirs is shown when any of its parts matches.
"""

from __future__ import annotations

import operator
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter, time

from mcpdesk.recorder.index.exchange import KINDS, STATUSES
from mcpdesk.recorder.index.query import EVERYTHING, All, Either, Field, Limit, Node, Not, Since, Word
from mcpdesk.recorder.index.table import NO_FRAME
from mcpdesk.recorder.index.traffic_index import Index

_SEPARATOR = b"\0"
_BLOCK = 128
"""Frames searched at once; segments of a ring are a multiple of it."""
_CLOCKS = 200
"""At most so many pending rows are judged anew by the clock each time."""


class View:
    """Lines of one index under one filter."""

    def __init__(self, index: Index, node: Node = EVERYTHING, *, raw: bool = False) -> None:
        self.raw = raw
        self._index = index
        self._table = index.table
        self._operations = index.operations
        self._is_all = node == EVERYTHING
        self._matcher = Matcher(index, node)
        self._lines: array[int] = array("q")
        self._held: tuple[array[int], int] | None = None
        self._rows = self._base = 0
        self._frames = 0
        self._altered = len(index.altered)

    @property
    def lines(self) -> Sequence[int]:
        """The lines, rising."""
        if not self._is_all:
            return self._lines
        lines, frames = self._held or (self._operations.lines, self._index.paired)
        return range(min(self._index.first_frame, frames), frames) if self.raw else lines

    @property
    def total(self) -> int:
        """How many lines there would be without a filter."""
        return self._index.paired - self._index.first_frame if self.raw else len(self._operations.lines)

    @property
    def done(self) -> float:
        """The share of what is there that the filter has seen, 0 to 1."""
        frames = self._held[1] if self._held else self._index.paired
        return 1.0 if self._is_all or not frames else self._frames / frames

    @property
    def held_back(self) -> int:
        """Lines that came since `hold`, whether the filter lets them pass or not."""
        if self._held is None:
            return 0
        lines, frames = self._held
        if self.raw:
            return self._index.paired - frames
        there = self._operations.lines
        return len(there) - bisect_right(there, lines[-1]) if lines else len(there)

    def hold(self) -> None:
        """Take in no further lines."""
        self._held = (self._operations.lines[:], self._index.paired)

    def release(self) -> None:
        """Take in lines again, with everything that came meanwhile."""
        self._held = None

    def position(self, line: int) -> int:
        """Where a line stands, or would stand."""
        return bisect_left(self.lines, line)

    def advance(self, budget_s: float = 0.005) -> bool:
        """Look at what came or changed, for about `budget_s` seconds; True when lines may differ."""
        if self._is_all:
            return False
        self._drop()
        before = len(self._lines), self._rows, self._altered
        until = perf_counter() + budget_s
        try:
            while self._step():
                if perf_counter() > until:
                    break
        except IndexError:
            if self._table.base == self._base:
                raise
            return True  # another thread has just dropped what was looked at: the next look goes on behind it
        if self._matcher.depends_on_clock and not self._held:
            self._review([row for row in self._index.pending()[-_CLOCKS:] if row < self._rows])
        return before != (len(self._lines), self._rows, self._altered)

    def _drop(self) -> None:
        """Forget what the index has dropped."""
        base, frame = self._table.base, self._index.first_frame
        if base <= self._base:
            return
        self._base = base
        self._rows, self._frames = max(self._rows, base), max(self._frames, frame)
        self._altered = max(self._altered, self._index.altered.base)
        del self._lines[: bisect_left(self._lines, frame if self.raw else base)]
        for needle in self._matcher.needles:
            needle.frames.difference_update([each for each in needle.frames if each < frame])

    def _step(self) -> bool:
        """Take one block of frames and the rows that begin in it; False when there is nothing to do."""
        more = self._held is None and self._review_altered()
        ready = self._held[1] if self._held else self._index.paired
        stop = min((self._frames | _BLOCK - 1) + 1, ready)
        if stop <= self._frames:
            return more
        self._search(self._frames, stop)
        rows = range(self._rows, bisect_left(self._table.first, stop, lo=self._rows))
        kept = self._matcher.keep(rows)
        self._frames, self._rows = stop, rows.stop
        self._take(kept)
        return True

    def _take(self, rows: Sequence[int]) -> None:
        """Show rows that come after all that were judged so far."""
        if self.raw:
            for row in rows:
                self._show(row)
            return
        whole = self._operations.whole
        if not whole:
            self._lines.extend(rows)
            return
        for row in rows:
            self._show(whole.get(row, row))

    def _search(self, start: int, stop: int) -> None:
        """Search frames for the filter's words; an earlier row may match by what came for it now."""
        while self._matcher.needles and start < stop:
            pieces = self._index.data(start, stop)
            self._search_pieces(start, pieces)
            start += len(pieces)

    def _search_pieces(self, start: int, pieces: Sequence[bytes]) -> None:
        """Search some frames, of which the first has the number `start`."""
        block = _SEPARATOR.join(pieces).lower()
        needles = [needle for needle in self._matcher.needles if needle.bytes in block]
        if not needles:
            return
        if len(lowered := block.split(_SEPARATOR)) != len(pieces):
            lowered = [piece.lower() for piece in pieces]
        row_of = self._index.row_of
        for needle in needles:
            earlier = [frame for frame in needle.scan(start, lowered) if row_of[frame] < self._rows]
            self._review([row for frame in earlier for row in self._index.rows_of(frame) if row < self._rows])

    def _review_altered(self) -> bool:
        """Judge anew some rows that changed since they were judged; True when more are left."""
        altered = self._index.altered
        stop = min(self._altered + _BLOCK, len(altered))
        base, changed = self._table.base, set(altered.between(self._altered, stop))
        self._review([row for row in changed if base <= row < self._rows])
        self._altered = stop
        return stop < len(altered)

    def _review(self, judged: Sequence[int]) -> None:
        """Judge rows anew, each with the operation it belongs to, as far as that was searched."""
        if not judged:
            return
        seen = self._rows
        together = [
            (line, [row for row in rows if row < seen]) for line, rows in self._operations.with_parts(judged)
        ]
        if self.raw:
            together = [(row, [row]) for _, rows in together for row in rows]
        kept = set(self._matcher.keep([row for _, rows in together for row in rows]))
        for line, rows in together:
            if kept.isdisjoint(rows):
                self._hide(line)
            else:
                self._show(line)

    def _of(self, row: int) -> list[int]:
        """The lines a row stands for."""
        if not self.raw:
            return [row]
        frames, oldest = (self._table.request[row], self._table.response[row]), self._index.first_frame
        return [frame for frame in frames if frame != NO_FRAME and frame >= oldest]

    def _show(self, row: int) -> None:
        lines = self._lines
        for line in self._of(row):
            if not lines or line > lines[-1]:
                lines.append(line)
            elif lines[at := bisect_left(lines, line)] != line:
                lines.insert(at, line)

    def _hide(self, row: int) -> None:
        lines = self._lines
        for line in self._of(row):
            at = bisect_left(lines, line)
            if at < len(lines) and lines[at] == line:
                del lines[at]


Rows = Sequence[int]
Keep = Callable[[Rows], Rows]
_CALLS = frozenset({"tools/call", "tools.call", "callTool"})
"""What calls a tool, by the names there are for it."""
_VERDICTS = 10_000
"""Methods with names a filter remembers its verdict on."""


class Needle:
    """One text, and the frames found to contain it so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.frames: set[int] = set()
        self.bytes = text.encode("utf-8", "surrogatepass")

    def scan(self, start: int, pieces: Sequence[bytes]) -> list[int]:
        """Look through successive frames from `start`, in lower case."""
        text = self.bytes
        found = [start + at for at, piece in enumerate(pieces) if text in piece]
        self.frames.update(found)
        return found


class Matcher:
    """A filter made ready for one index."""

    def __init__(self, index: Index, node: Node) -> None:
        self.needles: list[Needle] = []
        self.depends_on_clock = False
        """Whether a pending row may begin to match by waiting."""
        self._index = index
        self._table = index.table
        self._whole = index.operations.whole
        self.keep = self._compile(node)

    def _compile(self, node: Node) -> Keep:
        match node:
            case All(nodes):
                return self._all([self._compile(part) for part in nodes])
            case Either(nodes):
                return self._either([self._compile(part) for part in nodes])
            case Not(inner):
                return self._not(self._compile(inner))
            case Word(text):
                return self._word(text)
            case Since(moment):
                started = self._table.started
                return lambda rows: [row for row in rows if started[row] >= moment]
            case Limit(what, sign, bound):
                return self._limit(what, sign, bound)
            case Field(name, values):
                return self._FIELDS[name](self, values)

    def _all(self, parts: list[Keep]) -> Keep:
        def keep(rows: Rows) -> Rows:
            for part in parts:
                rows = part(rows)
            return rows

        return keep

    def _either(self, parts: list[Keep]) -> Keep:
        def keep(rows: Rows) -> Rows:
            found = {row for part in parts for row in part(rows)}
            return [row for row in rows if row in found]

        return keep

    def _not(self, part: Keep) -> Keep:
        def keep(rows: Rows) -> Rows:
            found = set(part(rows))
            return [row for row in rows if row not in found]

        return keep

    def _word(self, text: str) -> Keep:
        """Text in the frames of a row, or in the name of its peer."""
        needle = Needle(text)
        self.needles.append(needle)
        table, frames = self._table, needle.frames
        peers = self._connections(lambda connection: self._peer_has(connection, (text,)))

        def keep(rows: Rows) -> Rows:
            close = peers(rows)
            if not frames:
                return [row for row in rows if table.connection[row] in close] if close else []
            return [
                row
                for row in rows
                if table.request[row] in frames
                or table.response[row] in frames
                or table.connection[row] in close
            ]

        return keep

    def _limit(self, what: str, sign: str, bound: float) -> Keep:
        table, holds, whole = self._table, _SIGNS[sign], self._whole
        if what == "size":
            return lambda rows: [row for row in rows if holds(table.size[whole.get(row, row)], bound)]
        self.depends_on_clock = True
        started, ended = table.started, table.ended

        def keep(rows: Rows) -> Rows:
            now = time()

            def elapsed(row: int) -> float:
                return (ended[row] if ended[row] == ended[row] else now) - started[row]

            return [
                row for row in rows if table.kind[row] == 0 and holds(elapsed(whole.get(row, row)), bound)
            ]

        return keep

    def _by_label(self, values: tuple[str, ...], part: int, tools_only: bool = False) -> Keep:
        """Rows whose method (part 0) or name (part 1) contains one of the values."""
        table = self._table
        verdicts: dict[int, bool] = {}

        def verdict(label: int) -> bool:
            if len(verdicts) >= _VERDICTS:
                verdicts.clear()
            text = table.labels[label]
            fits = any(value in text[part].lower() for value in values)
            verdicts[label] = fits = fits and (not tools_only or text[0] in _CALLS)
            return fits

        def keep(rows: Rows) -> Rows:
            labels = table.label
            return [
                row
                for row in rows
                if (verdicts[labels[row]] if labels[row] in verdicts else verdict(labels[row]))
            ]

        return keep

    def _by_method(self, values: tuple[str, ...]) -> Keep:
        return self._by_label(values, 0)

    def _by_name(self, values: tuple[str, ...]) -> Keep:
        return self._by_label(values, 1)

    def _by_tool(self, values: tuple[str, ...]) -> Keep:
        return self._by_label(values, 1, tools_only=True)

    def _by_peer(self, values: tuple[str, ...]) -> Keep:
        return self._by_connection(lambda connection: self._peer_has(connection, values))

    def _by_server(self, values: tuple[str, ...]) -> Keep:
        def fits(connection: int) -> bool:
            info = self._index.connections.get(connection)
            return info is not None and any(value in info.server.lower() for value in values)

        return self._by_connection(fits)

    def _peer_has(self, connection: int, values: Iterable[str]) -> bool:
        info = self._index.connections.get(connection)
        return info is not None and any(value in info.peer.lower() for value in values)

    def _connections(self, fits: Callable[[int], bool]) -> Callable[[Rows], set[int]]:
        """Which connections of some rows fit; asked anew each time, as peers tell their names late."""
        table = self._table
        return lambda rows: {number for number in {table.connection[row] for row in rows} if fits(number)}

    def _by_connection(self, fits: Callable[[int], bool]) -> Keep:
        table, fitting = self._table, self._connections(fits)

        def keep(rows: Rows) -> Rows:
            close = fitting(rows)
            return [row for row in rows if table.connection[row] in close] if close else []

        return keep

    def _by_status(self, values: tuple[str, ...]) -> Keep:
        """How the whole operation of a row stands."""
        table, whole = self._table, self._whole
        codes = {code for code, status in enumerate(STATUSES) if status.value in values}
        slow = "slow" in values

        def keep(rows: Rows) -> Rows:
            at = [whole.get(row, row) for row in rows] if whole else rows
            pairs = zip(rows, at, strict=True)
            return [row for row, line in pairs if table.status[line] in codes or (slow and table.slow[line])]

        return keep

    def _by_kind(self, values: tuple[str, ...]) -> Keep:
        table = self._table
        codes = {code for code, kind in enumerate(KINDS) if kind.value in values}
        return lambda rows: [row for row in rows if table.kind[row] in codes]

    def _by_direction(self, values: tuple[str, ...]) -> Keep:
        table = self._table
        codes = {code for code, word in enumerate(("in", "out")) if word in values}
        return lambda rows: [row for row in rows if table.direction[row] in codes]

    def _by_revision(self, values: tuple[str, ...]) -> Keep:
        """A row's own revision, else its connection's."""
        index = self._index
        return lambda rows: [
            row for row in rows if any(value in index.revision(row).lower() for value in values)
        ]

    def _by_id(self, values: tuple[str, ...]) -> Keep:
        identifiers = self._table.id

        def fits(identifier: object) -> bool:
            if isinstance(identifier, str):
                return identifier in values or f'"{identifier}' in values
            return identifier is not None and str(identifier) in values

        return lambda rows: [row for row in rows if fits(identifiers[row])]

    _FIELDS: dict[str, Callable[[Matcher, tuple[str, ...]], Keep]] = {
        "method": _by_method,
        "tool": _by_tool,
        "name": _by_name,
        "peer": _by_peer,
        "server": _by_server,
        "dir": _by_direction,
        "kind": _by_kind,
        "status": _by_status,
        "id": _by_id,
        "rev": _by_revision,
    }


_SIGNS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
