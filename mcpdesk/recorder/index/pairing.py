"""Which response belongs to which request: per connection and direction, by id, `1` and `"1"` apart."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection
from typing import Final

from mcpdesk.recorder.index.exchange import Code
from mcpdesk.recorder.index.message_heads import Head, Id, Shape, read_cut, read_heads
from mcpdesk.recorder.index.operations import Operations, drop_before, state_key, task_key
from mcpdesk.recorder.index.table import NO_FRAME, Column, RollingColumn, Table
from mcpdesk.recorder.record import Frame, Source

_BEGINS = {
    Shape.REQUEST: Code.PENDING,
    Shape.NOTIFICATION: Code.SENT,
    Shape.RESPONSE: Code.LATE,
    Shape.MALFORMED: Code.MALFORMED,
}
_CANCELLATIONS = frozenset({"notifications/cancelled", "notifications/canceled"})
_LOG = "notifications/message"
_ASKING = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""What a server asks its client while a call is under way."""
_TASKS = "tasks/"
_ASKED_FOR = frozenset({"tools/call", "prompts/get", "resources/read", "tasks/result"})
"""Requests whose work may ask the client."""
MOST_MOVED = 50
"""Requests without a response that stay in sight when their rows are dropped."""
_MANY = 8
"""Requests under way beyond which nobody tries to tell which one asks."""
_LARGEST_READ = 4 << 20
"""Bytes of a frame that is decoded where its beginning and end do not say enough."""
_MOST_NOTIFICATIONS = 10_000
"""Notifications that are linked to one exchange; further ones become exchanges of their own."""


class Way:
    """The requests that went one way over one connection and may still be answered."""

    __slots__ = ("cancelled", "malformed", "token_of", "tokens", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Id, deque[int]] = {}
        """Rows by id, oldest first: ids may clash where a peer breaks the rules."""
        self.cancelled: dict[Id, int] = {}
        self.tokens: dict[Id, int] = {}
        """Rows by the token their progress is reported with."""
        self.token_of: dict[int, Id] = {}
        """The other way round."""
        self.malformed = NO_FRAME


class Pairing:
    """Takes frames in order and grows the table. Not safe to use from two threads at once."""

    def __init__(self, source: Source, *, rolling: bool = False) -> None:
        self.table = Table(rolling=rolling)
        self.operations = Operations()
        self.altered = RollingColumn[int]("q")
        self.notifications: dict[int, array[int]] = {}
        self.parts: dict[tuple[int, int], int] = {}
        self.row_of: Column[int] = RollingColumn("q") if rolling else array("q")
        """The first row of every frame."""
        self.first_frame = 0
        """Frames before this one were dropped."""
        self._source = source
        self._batches: dict[int, tuple[int, ...]] = {}
        self._ways: dict[int, Way] = {}
        self._slow_calls = SlowCallDetector()

    def add(self, frame: Frame) -> None:
        """Take the next frame."""
        heads = read_heads(frame.data) if frame.size == len(frame.data) else self._large(frame)
        rows = [self._enter(head, frame) for head in heads]
        self.row_of.append(rows[0])
        if len(rows) > 1 or frame.data[:1] == b"[":
            self._batches[frame.number] = tuple(rows)
            self.parts.update({(row, frame.number): part for part, row in enumerate(rows)})

    def skip(self) -> None:
        """Pass over a frame that is gone."""
        self.row_of.append(NO_FRAME)

    def rows_of(self, frame: int) -> tuple[int, ...]:
        """The rows a frame belongs to."""
        if not self.first_frame <= frame < len(self.row_of) or (row := self.row_of[frame]) == NO_FRAME:
            return ()
        rows, base = self._batches.get(frame) or (row,), self.table.base
        return rows if min(rows) >= base else tuple(row for row in rows if row >= base)

    def pending(self) -> list[int]:
        """Rows that wait for a response."""
        waiting = [rows for way in list(self._ways.values()) for rows in list(way.waiting.values())]
        return sorted(row for rows in waiting for row in rows)

    def give_up_closed(self) -> None:
        """End the requests nobody can answer any more, since their connection is closed."""
        for key, way in list(self._ways.items()):
            info = self._source.connections.get(key >> 1)
            if info is None or info.closed is None:
                continue
            for row in [row for rows in way.waiting.values() for row in rows]:
                self._stop(row, max(info.closed, self.table.started[row]), Code.LOST)
            del self._ways[key]

    def drop(self, base: int) -> None:
        """Forget the rows before `base`, and their frames. Only for rolling columns.

        Of those that still wait for a response the newest move to the end, so that they stay in sight.
        """
        stale = [row for row in self.pending() if row < base]
        moved = {row: self._moved(row) for row in stale[-MOST_MOVED:]}
        for way in self._ways.values():
            for key, rows in list(way.waiting.items()):
                kept = [moved.get(row, row) for row in rows if row >= base or row in moved]
                if kept:
                    way.waiting[key] = deque(kept)
                else:
                    del way.waiting[key]
            way.tokens = {token: moved.get(row, row) for token, row in way.tokens.items()}
            waiting = {row for rows in way.waiting.values() for row in rows}
            way.tokens = {token: row for token, row in way.tokens.items() if row in waiting}
            way.cancelled = {name: row for name, row in way.cancelled.items() if row >= base}
            if way.malformed < base:
                way.malformed = NO_FRAME
        self.first_frame = max(self.first_frame, self.table.first[base])
        self.operations.drop(base)
        drop_before(base, self.notifications)
        drop_before(self.first_frame, self._batches)
        for part in [part for part in self.parts if part[0] < base]:
            del self.parts[part]
        self._slow_calls.forget(self.table.drop(base))
        if isinstance(self.row_of, RollingColumn):
            self.row_of.drop(self.first_frame)
        # A change of a row that is gone says nothing. They are about in the order of the rows.
        start, stop = self.altered.base, len(self.altered)
        while start < stop and self.altered[start] < base:
            start += 1
        self.altered.drop(start)

    def _moved(self, row: int) -> int:
        """A pending row made anew at the end; returns it."""
        fresh = self.table.copy(row, max(0, len(self.row_of) - 1))
        self.operations.move(row, fresh)
        frame = self.table.request[row]
        if rows := self._batches.get(frame):
            self._batches[frame] = tuple(fresh if one == row else one for one in rows)
        if frame >= self.first_frame and self.row_of[frame] == row:
            self.row_of[frame] = fresh
        if (row, frame) in self.parts:
            self.parts[fresh, frame] = self.parts[row, frame]
        if row in self.notifications:
            self.notifications[fresh] = self.notifications.pop(row)
        return fresh

    def _large(self, frame: Frame) -> list[Head]:
        head = read_cut(frame.data, frame.end)
        if head.shape is not Shape.MALFORMED or frame.size > _LARGEST_READ:
            return [head]
        return read_heads(self._source.whole(frame.number))

    def _way(self, connection: int, direction: int) -> Way:
        key = connection << 1 | direction
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = Way()
        return way

    def _enter(self, head: Head, frame: Frame) -> int:
        """Take one message and return its row."""
        if head.shape is Shape.RESPONSE and (row := self._answered(head, frame)) is not None:
            return row
        shape = head.shape
        row = self.table.add(head, frame, shape, _BEGINS[shape])
        if shape is Shape.REQUEST:
            self._place(head, frame, row)
            self._asked(head, frame, row)
            return row
        self.operations.stand_alone(row)
        if shape is Shape.NOTIFICATION:
            self._notified(head, frame)
        elif shape is Shape.MALFORMED:
            self._way(frame.connection, frame.direction).malformed = row
        return row

    def _server(self, connection: int) -> str:
        info = self._source.connections.get(connection)
        return info.server if info else ""

    def _place(self, head: Head, frame: Frame, row: int) -> None:
        """Make a request a line of its own, or a part of the operation it goes on with."""
        operations = self.operations
        if head.state:
            first = operations.expected(state_key(self._server(frame.connection), head.state))
            if first is not None and self.table.label[first] == self.table.label[row]:
                self._go_on(row, first, frame)
                return
        elif head.method in _ASKING:
            first = self._asker(head, frame)
            if first is not None:
                if operation := operations.join(row, first):
                    operation.questions += 1
                    operation.ask(frame.time)
                    self.altered.append(operations.whole[row])
                return
        elif head.method.startswith(_TASKS) and head.name:
            first = operations.expected(task_key(self._server(frame.connection), head.name))
            if first is not None:
                if operations.join(row, first):
                    self.altered.append(operations.whole[row])
                return
        operations.stand_alone(row)

    def _go_on(self, row: int, first: int, frame: Frame) -> None:
        """The client comes back with answers: another round of the operation that began with `first`."""
        if (operation := self.operations.join(row, first)) is not None:
            operation.rounds += 1
            operation.hear(frame.time)
            self.table.resume(first, frame.size)
            self.altered.append(first)

    def _asker(self, head: Head, frame: Frame) -> int | None:
        """The call a server asks its client for: that of the task named, else the only one under way."""
        if head.task:
            return self.operations.expected(task_key(self._server(frame.connection), head.task))
        way = self._ways.get(frame.connection << 1 | (1 - frame.direction))
        if way is None or len(way.waiting) > _MANY or sum(map(len, way.waiting.values())) > _MANY:
            return None
        rows = [row for waiting in way.waiting.values() for row in waiting]
        calls = [row for row in rows if self.table.method(row) in _ASKED_FOR]
        return calls[0] if len(calls) == 1 else None

    def _asked(self, head: Head, frame: Frame, row: int) -> None:
        way = self._way(frame.connection, frame.direction)
        if head.id is not None:
            way.waiting.setdefault(head.id, deque()).append(row)
            way.cancelled.pop(head.id, None)
        if head.token is not None:
            way.tokens[head.token] = row
            way.token_of[row] = head.token

    def _answered(self, head: Head, frame: Frame) -> int | None:
        """The row a response ends, or None when nothing waits for it."""
        way = self._way(frame.connection, 1 - frame.direction)
        if head.id is None:
            return self._refused(way, frame)
        rows = way.waiting.get(head.id)
        if not rows:
            row = way.cancelled.pop(head.id, None)
            if row is not None:
                self.table.answer(row, frame, Code.LATE)
                self.altered.append(row)
            return row
        row = rows.popleft()
        if not rows:
            del way.waiting[head.id]
        self._end(row, head, frame, way)
        self._tell_whole(row, head, frame)
        return row

    def _tell_whole(self, row: int, head: Head, frame: Frame) -> None:
        """Enter what a response means for the operation its request belongs to."""
        operations, table = self.operations, self.table
        whole = operations.whole.get(row)
        if whole is not None:
            if table.direction[row] != table.direction[whole]:
                operations.start(whole).hear(frame.time)
            elif table.label[row] == table.label[whole]:
                table.conclude(whole, row, frame.size)
            self.altered.append(whole)
        if head.asks:
            operations.start(row).ask(frame.time)
            if head.state:
                operations.expect(state_key(self._server(frame.connection), head.state), row)
        if head.task and not table.method(row).startswith(_TASKS):
            operations.expect(task_key(self._server(frame.connection), head.task), row)

    def _stop(self, row: int, time: float, status: Code) -> None:
        """End a request without a response, and with it a round or a question of its operation."""
        table, whole = self.table, self.operations.whole.get(row)
        table.end(row, time, status)
        self.altered.append(row)
        if whole is None:
            return
        if table.direction[row] != table.direction[whole]:
            self.operations.start(whole).hear(time)
        elif table.label[row] == table.label[whole]:
            table.end(whole, time, status)
        self.altered.append(whole)

    def _end(self, row: int, head: Head, frame: Frame, way: Way) -> None:
        """Enter a response in time, with what it says."""
        status = _status(head)
        elapsed = self.table.answer(row, frame, status)
        self.table.slow[row] = self._slow_calls.is_slow(self.table.label[row], elapsed)
        if head.revision:
            self.table.revision[row] = self.table.revision_code(head.revision)
        self.altered.append(row)
        token = way.token_of.pop(row, None)
        if token is not None and way.tokens.get(token) == row:
            del way.tokens[token]

    def _refused(self, way: Way, frame: Frame) -> int | None:
        """The malformed frame an error without id speaks of, if it is still unanswered."""
        row, way.malformed = way.malformed, NO_FRAME
        if row == NO_FRAME:
            return None
        self.table.answer(row, frame, Code.MALFORMED)
        self.altered.append(row)
        return row

    def _notified(self, head: Head, frame: Frame) -> None:
        """Link a notification to the call it belongs to, and end the one it cancels."""
        if head.method in _CANCELLATIONS and head.cancels is not None:
            self._cancelled(head.cancels, frame)
            return
        way = self._ways.get(frame.connection << 1 | (1 - frame.direction))
        if way is None:
            return
        row = way.tokens.get(head.token) if head.token is not None else None
        if row is None and head.method == _LOG:
            row = _only(way)
        if row is None and head.name and head.method.startswith(f"notifications/{_TASKS[:-1]}"):
            row = self.operations.expected(task_key(self._server(frame.connection), head.name))
        if row is not None:
            row = self.operations.whole.get(row, row)
            linked = self.notifications.setdefault(row, array("q"))
            if len(linked) < _MOST_NOTIFICATIONS:
                linked.append(frame.number)
                self.altered.append(row)

    def _cancelled(self, identifier: Id, frame: Frame) -> None:
        way = self._way(frame.connection, frame.direction)
        rows = way.waiting.pop(identifier, None)
        for row in rows or ():
            self._stop(row, frame.time, Code.CANCELLED)
            way.cancelled[identifier] = row


def _only(way: Way) -> int | None:
    """The one request under way, or None when there are several."""
    if len(way.waiting) != 1:
        return None
    (rows,) = way.waiting.values()
    return rows[0]


def _status(head: Head) -> Code:
    if head.failed:
        return Code.ERROR
    if head.asks:
        return Code.ASKS
    return Code.TOOL_ERROR if head.tool_failed else Code.OK


_ENOUGH: Final = 20
_STEP: Final = 0.05
_QUANTILE: Final = 0.95
_FLOOR_S: Final = 1e-6


class SlowCallDetector:
    """A running estimate of the 95th percentile of seconds, per label.

    Each duration nudges the estimate up or down by a share of itself, so that it settles where 95 of 100 lie
    below: two numbers a label instead of a history.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, float]] = {}

    def forget(self, labels: Collection[int]) -> None:
        """Forget labels nothing has any more."""
        for label in labels:
            self._seen.pop(label, None)

    def is_slow(self, label: int, elapsed: float) -> bool:
        """Whether `elapsed` is over twice the usual 95th percentile; remembers it. Never before 20 calls."""
        count, usual = self._seen.get(label, (0, max(elapsed, _FLOOR_S)))
        slow = count >= _ENOUGH and elapsed > 2 * usual
        share = _QUANTILE if elapsed > usual else _QUANTILE - 1
        self._seen[label] = (count + 1, max(usual * (1 + _STEP * share), _FLOOR_S))
        return slow
