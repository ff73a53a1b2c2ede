"""A JSON value as foldable rows. Knows nothing of widgets; only what is unfolded is ever laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

from mcpdesk.tui.render.json_text import Path, compact

SLICE = 200
"""Children laid out at a time."""
FOLDED_TEXT = 100
"""Characters above which a string is foldable even without line breaks, and the width of its lines then."""


class RowKind(Enum):
    """What a row stands for."""

    VALUE = "value"
    TEXT = "text"
    """One line of an unfolded string."""
    MORE = "more"
    """The children not laid out yet."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `path` is that of the value, for `TEXT` and `MORE` that of the value they belong to."""

    kind: RowKind
    path: Path
    depth: int
    value: Any
    """The value; a line of text; the number of children left."""

    @property
    def key(self) -> str | int | None:
        """Key or index within the parent; None at the root."""
        return self.path[-1] if self.path else None


class Outline:
    """The rows of a value, the root first. `marks` are remarks at paths, such as schema violations.

    As much is unfolded as `room` lines hold, but nothing below the keys in `folded`.
    """

    def __init__(
        self,
        value: Any,
        marks: Mapping[Path, str] | None = None,
        room: int = 60,
        folded: Collection[str] = (),
    ) -> None:
        self.value = value
        self._folded = folded
        self.marks = dict(marks or {})
        self._marked_above = {path[:end] for path in self.marks for end in range(len(path))}
        self._shown: dict[Path, int] = {}
        self.rows = [Row(RowKind.VALUE, (), 0, value)]
        self._open_up_to(room)
        for path in list(self.marks)[:20]:
            self.reveal(path)

    def is_open(self, row: Row) -> bool:
        """Whether the row's children are laid out."""
        return row.kind is RowKind.VALUE and row.path in self._shown

    def can_open(self, row: Row) -> bool:
        """Whether the row has anything to unfold."""
        return row.kind is RowKind.VALUE and count_children(row.value) > 0

    def holds_mark(self, row: Row) -> bool:
        """Whether a remark stands somewhere below the row."""
        return row.kind is RowKind.VALUE and row.path in self._marked_above

    def toggle(self, index: int) -> None:
        """Fold or unfold a row; lay out the next slice where more is left."""
        row = self.rows[index]
        if row.kind is RowKind.MORE:
            self.more(index)
        elif self.is_open(row):
            self.close(index)
        else:
            self.open(index)

    def open(self, index: int) -> None:
        """Unfold a row; what was unfolded below it before is so again."""
        row = self.rows[index]
        if self.can_open(row) and not self.is_open(row):
            self._shown[row.path] = SLICE
            self.rows[index + 1 : index + 1] = self._children(row, 0)

    def close(self, index: int) -> None:
        """Fold a row."""
        if self._shown.pop(self.rows[index].path, None) is not None:
            del self.rows[index + 1 : self._end(index)]

    def more(self, index: int) -> None:
        """Replace a `MORE` row by the next slice."""
        parent = self.rows[self.parent(index)]
        done = self._shown[parent.path]
        self._shown[parent.path] = done + SLICE
        self.rows[index : index + 1] = self._children(parent, done)

    def open_below(self, index: int, limit: int = 2000) -> None:
        """Unfold a row and everything in it, until about `limit` rows were added."""
        depth, before = self.rows[index].depth, len(self.rows)
        while True:
            self.open(index)
            index += 1
            if index >= len(self.rows) or self.rows[index].depth <= depth or len(self.rows) - before >= limit:
                return

    def close_all(self) -> None:
        """Fold everything but the root."""
        self._shown.clear()
        self.rows = self.rows[:1]
        self.open(0)

    def parent(self, index: int) -> int:
        """The row a row stands under; the root's is itself."""
        depth = self.rows[index].depth
        return next((at for at in range(index - 1, -1, -1) if self.rows[at].depth < depth), 0)

    def reveal(self, path: Path) -> int:
        """Unfold whatever hides a path and return its row, or that of the nearest value above it."""
        at = 0
        for key in path:
            position = _position(self.rows[at].value, key)
            if position is None:
                return at
            self.open(at)
            at = self._child(at, position)
        return at

    def find(self, query: str, limit: int = 500, budget: int = 200_000) -> list[Path]:
        """Paths whose key or scalar contains `query`, in order; at most `budget` values are looked at."""
        needle = query.casefold()
        walk = islice(_walk(self.value), budget)
        hits = (path for path, value in walk if _matches(path, value, needle))
        return list(islice(hits, limit)) if needle else []

    def _children(self, row: Row, start: int) -> list[Row]:
        end, rows = self._shown[row.path], []
        for key, value in islice(_items(row.value), start, end):
            if isinstance(row.value, str):
                rows.append(Row(RowKind.TEXT, row.path, row.depth + 1, value))
                continue
            child = Row(RowKind.VALUE, (*row.path, key), row.depth + 1, value)
            rows.append(child)
            if self.is_open(child):
                rows += self._children(child, 0)
        left = count_children(row.value) - end
        return [*rows, Row(RowKind.MORE, row.path, row.depth + 1, left)] if left > 0 else rows

    def _end(self, index: int) -> int:
        depth = self.rows[index].depth
        following = range(index + 1, len(self.rows))
        return next((at for at in following if self.rows[at].depth <= depth), len(self.rows))

    def _child(self, index: int, position: int) -> int:
        depth = self.rows[index].depth + 1
        while True:
            own = [at for at in range(index + 1, self._end(index)) if self.rows[at].depth == depth]
            if self.rows[own[-1]].kind is not RowKind.MORE or position < len(own) - 1:
                return own[position]
            self.more(own[-1])

    def _open_up_to(self, room: int) -> None:
        if _is_container(self.value):
            self.open(0)
        for depth in range(1, 20):
            level = [
                at
                for at, row in enumerate(self.rows)
                if row.depth == depth and _is_container(row.value) and row.key not in self._folded
            ]
            cost = sum(min(count_children(self.rows[at].value), SLICE) for at in level)
            if not level or len(self.rows) + cost > room:
                return
            for at in reversed(level):
                self.open(at)


def count_children(value: Any) -> int:
    """How many rows a value unfolds to."""
    if _is_container(value):
        return len(value)
    if isinstance(value, str) and (len(value) > FOLDED_TEXT or "\n" in value):
        return len(text_lines(value))
    return 0


def text_lines(text: str) -> list[str]:
    """The lines of a string, long ones cut into pieces of `FOLDED_TEXT` characters."""
    return [
        line[start : start + FOLDED_TEXT]
        for line in text.split("\n")
        for start in range(0, max(1, len(line)), FOLDED_TEXT)
    ]


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def _items(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(text_lines(value) if isinstance(value, str) else value)


def _position(value: Any, key: str | int) -> int | None:
    if isinstance(value, dict):
        return next((at for at, name in enumerate(value) if name == key), None)
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return key
    return None


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    stack: list[Iterator[tuple[Path, Any]]] = [iter([(path, value)])]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        yield found
        if _is_container(found[1]):
            stack.append(_below(*found))


def _below(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    return (((*path, key), item) for key, item in _items(value))


def _matches(path: Path, value: Any, needle: str) -> bool:
    if path and isinstance(path[-1], str) and needle in path[-1].casefold():
        return True
    if _is_container(value):
        return False
    return needle in (value if isinstance(value, str) else compact(value)).casefold()
