"""Which exchanges are one operation: rounds of a call, questions asked while it ran, looks at its task.

Rounds are linked by the `requestState` they carry on, tasks by their id, questions of the handshake era by
the one call that was under way. What cannot be told for certain stays an exchange of its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

PARTS: Final = 1_000
"""Exchanges one operation takes in; further ones stand for themselves."""
REMEMBERED: Final = 20_000
"""States and tasks whose next exchange is waited for; the oldest are forgotten first."""

Key = tuple[str, str]


class LinkedExchanges:
    """An exchange and those that belong to it, all as rows of the table."""

    __slots__ = ("asked", "questions", "rounds", "rows", "since", "waited")

    def __init__(self) -> None:
        self.rows = array("q")
        """Without the first, in order."""
        self.rounds = 1
        self.questions = 0
        self.asked = 0
        """Questions the client has not answered yet."""
        self.since = 0.0
        """When the first of them was asked, Unix time in seconds."""
        self.waited = 0.0
        """Seconds waited for the client before that."""

    def ask(self, time: float) -> None:
        """The client has a question more."""
        if not self.asked:
            self.since = time
        self.asked += 1

    def hear(self, time: float) -> None:
        """The client answered one."""
        if self.asked:
            self.asked -= 1
            self.waited += 0 if self.asked else max(0.0, time - self.since)


class Operations:
    """All operations by their first row."""

    def __init__(self) -> None:
        self._base = 0
        self.lines = array("q")
        """Rows that are part of no other, rising."""
        self.whole: dict[int, int] = {}
        """Part -> the row it belongs to."""
        self._of: dict[int, LinkedExchanges] = {}
        self._awaited: dict[Key, int] = {}

    def get(self, row: int) -> LinkedExchanges | None:
        """The operation that begins with `row`; None when it is an exchange and nothing else."""
        return self._of.get(row)

    def start(self, row: int) -> LinkedExchanges:
        """The operation of a row, begun if need be; that of its whole if it is a part."""
        whole = self.whole.get(row, row)
        operation = self._of.get(whole)
        if operation is None:
            operation = self._of[whole] = LinkedExchanges()
        return operation

    def stand_alone(self, row: int) -> None:
        """Take a new row that belongs to no other."""
        self.lines.append(row)

    def join(self, row: int, to: int) -> LinkedExchanges | None:
        """Make a new row part of the operation of `to`; None when that has enough parts."""
        operation = self.start(to)
        if len(operation.rows) >= PARTS:
            self.lines.append(row)
            return None
        self.whole[row] = self.whole.get(to, to)
        operation.rows.append(row)
        return operation

    def expect(self, key: Key, row: int) -> None:
        """Remember what a later exchange of this operation will carry."""
        self._awaited.pop(key, None)
        self._awaited[key] = self.whole.get(row, row)
        if len(self._awaited) > REMEMBERED:
            del self._awaited[next(iter(self._awaited))]

    def expected(self, key: Key) -> int | None:
        """The row that an exchange carrying `key` belongs to; None when it was dropped."""
        row = self._awaited.get(key)
        return row if row is not None and row >= self._base else None

    def move(self, row: int, to: int) -> None:
        """Make `to`, a new row, what `row` was."""
        self.lines.append(to)
        operation = self._of.pop(row, None)
        if operation is not None:
            self._of[to] = operation
            self.whole.update(dict.fromkeys(operation.rows, to))

    def drop(self, base: int) -> None:
        """Forget the rows before `base`."""
        self._base = base
        self.lines = self.lines[bisect_left(self.lines, base) :]
        drop_before(base, self.whole)
        drop_before(base, self._of)
        for part in [part for part, whole in self.whole.items() if whole < base]:
            del self.whole[part]
        for operation in self._of.values():
            operation.rows = array("q", (row for row in operation.rows if row >= base))

    def with_parts(self, rows: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """The wholes of some rows, each once with all its rows, rising."""
        for line in sorted({self.whole.get(row, row) for row in rows}):
            operation = self._of.get(line)
            yield line, (line, *operation.rows) if operation else (line,)


def drop_before(base: int, table: dict[int, Any]) -> None:
    """Delete the entries of rows, or frames, before `base`, in place."""
    for key in [key for key in table if key < base]:
        del table[key]


def state_key(server: str, state: str) -> Key:
    """What stands for a `requestState` without keeping all of it."""
    return server, blake2b(state.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def task_key(server: str, task: str) -> Key:
    """What stands for a task."""
    return server, f"task {task}"
