"""Groups of related exchanges (operations), and the keys that assign later exchanges to an operation."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

MAX_PARTS: Final = 1_000
"""Maximum number of parts of one operation. Further exchanges become separate lines."""
MAX_KEYS: Final = 20_000
"""Maximum number of `requestState` values and task ids that are kept to find later exchanges."""

Key = tuple[str, str]
"""Server, and a digest of a `requestState` or the name of a task."""


class LinkedExchanges:
    """An exchange and its parts, as rows of the table."""

    __slots__ = ("open_questions", "questions", "rounds", "rows", "wait_started", "waited_s")

    def __init__(self) -> None:
        self.rows = array("q")
        """Rows of the parts, in ascending order."""
        self.rounds = 1
        self.questions = 0
        self.open_questions = 0
        """Number of questions that the client has not answered yet."""
        self.wait_started = 0.0
        """Unix time in seconds when the current wait for the client began."""
        self.waited_s = 0.0
        """Seconds of the waits for the client that have ended."""

    def add_question(self, time: float) -> None:
        """Record a question to the client."""
        if not self.open_questions:
            self.wait_started = time
        self.open_questions += 1

    def add_answer(self, time: float) -> None:
        """Record an answer of the client."""
        if self.open_questions:
            self.open_questions -= 1
            self.waited_s += 0 if self.open_questions else max(0.0, time - self.wait_started)


class Operations:
    """All operations, by the row of their first exchange."""

    def __init__(self) -> None:
        self._base = 0
        """Oldest row that was not dropped."""
        self.lines = array("q")
        """Rows that are not part of an operation that began earlier, in ascending order."""
        self.operation_of: dict[int, int] = {}
        """First row of the operation that a part belongs to, by row of the part."""
        self._operations: dict[int, LinkedExchanges] = {}
        """Operations by their first row."""
        self._expected: dict[Key, int] = {}
        """First row of an operation, by the key of its later exchanges."""

    def get(self, row: int) -> LinkedExchanges | None:
        """Return the operation that begins with `row`, or None if `row` has neither parts nor waits."""
        return self._operations.get(row)

    def client_s(self, row: int) -> float:
        """Return the seconds for which the operation that begins with `row` waited for the client."""
        operation = self._operations.get(row)
        return 0.0 if operation is None else operation.waited_s

    def get_or_add(self, row: int) -> LinkedExchanges:
        """Return the operation that contains `row`. Create it if necessary."""
        first_row = self.operation_of.get(row, row)
        operation = self._operations.get(first_row)
        if operation is None:
            operation = self._operations[first_row] = LinkedExchanges()
        return operation

    def add_line(self, row: int) -> None:
        """Add a new row that is not part of an operation."""
        self.lines.append(row)

    def join(self, row: int, known_row: int) -> LinkedExchanges | None:
        """Add a new row to the operation that contains `known_row`, and return this operation.

        If the operation has too many parts, add the row as a separate line and return None.
        """
        operation = self.get_or_add(known_row)
        if len(operation.rows) >= MAX_PARTS:
            self.lines.append(row)
            return None
        self.operation_of[row] = self.operation_of.get(known_row, known_row)
        operation.rows.append(row)
        return operation

    def expect(self, key: Key, row: int) -> None:
        """Remember that a later exchange with this key belongs to the operation of `row`."""
        self._expected.pop(key, None)
        self._expected[key] = self.operation_of.get(row, row)
        if len(self._expected) > MAX_KEYS:
            del self._expected[next(iter(self._expected))]

    def expected(self, key: Key) -> int | None:
        """Return the first row of the operation that continues with a new exchange of this key.

        None if the key is unknown or the row was dropped.
        """
        row = self._expected.get(key)
        return row if row is not None and row >= self._base else None

    def move(self, row: int, new_row: int) -> None:
        """Replace the first row of an operation with `new_row`."""
        self.lines.append(new_row)
        operation = self._operations.pop(row, None)
        if operation is not None:
            self._operations[new_row] = operation
            self.operation_of.update(dict.fromkeys(operation.rows, new_row))

    def drop(self, base: int) -> None:
        """Drop all rows before `base`."""
        self._base = base
        self.lines = self.lines[bisect_left(self.lines, base) :]
        drop_before(base, self.operation_of)
        drop_before(base, self._operations)
        for part in [part for part, first_row in self.operation_of.items() if first_row < base]:
            del self.operation_of[part]
        for operation in self._operations.values():
            operation.rows = array("q", (row for row in operation.rows if row >= base))

    def with_parts(self, rows: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the first row and all rows of each operation that contains one of `rows`."""
        for line in sorted({self.operation_of.get(row, row) for row in rows}):
            operation = self._operations.get(line)
            yield line, (line, *operation.rows) if operation else (line,)


def drop_before(base: int, table: dict[int, Any]) -> None:
    """Delete the entries whose keys (rows or frames) are less than `base`."""
    for key in [key for key in table if key < base]:
        del table[key]


def state_key(server: str, state: str) -> Key:
    """Return the key for a `requestState`: a digest, because it needs less memory."""
    return server, blake2b(state.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def task_key(server: str, task: str) -> Key:
    """Return the key of a task."""
    return server, f"task {task}"
