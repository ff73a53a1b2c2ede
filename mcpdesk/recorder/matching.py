"""A parsed filter applied to the rows of an index: many rows in, the matching ones out, order kept.

Each part of a filter becomes a function over whole chunks of rows, so that the cheap parts thin out what the
dear ones see. Text is searched in the bytes of frames, a block of frames at a time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from time import time

from mcpdesk.recorder.exchange import KINDS, STATUSES
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.query import All, Either, Field, Limit, Node, Not, Since, Word

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
