"""Pairing of requests with responses, and grouping of related exchanges (an operation).

Responses are paired per connection and direction by id; `1` and `"1"` are different ids. Rounds of a call are
linked by `requestState`, and requests about a task by the task id. In revisions with a handshake, a question
belongs to the only running call. A message that cannot be assigned remains an exchange of its own.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import blake2b
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from mcpdesk.protocol.catalogue.token_cost import cost_of, has_base64
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.reading.message import same_id
from mcpdesk.recorder.index.exchange import STATUSES, ExchangeKind, Id, Status
from mcpdesk.recorder.index.message_heads import Head, read_cut, read_heads
from mcpdesk.recorder.index.slow_calls import SlowCallDetector
from mcpdesk.recorder.index.table import NO_FRAME, NO_ROW, ColumnValues, RollingColumn, Table, column_of
from mcpdesk.recorder.record import Frame, Source

_CANCELLATIONS = frozenset({"notifications/cancelled", "notifications/canceled"})
_LOG = "notifications/message"
_QUESTIONS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""Requests that a server may send to its client during a call."""
_PROBE = "server/discover"
_LISTEN = "subscriptions/listen"
_STATUS = re.compile(r"HTTP\S* (\d{3})")
_REFUSED = frozenset({"401", "403", "407", "421", "429"})
"""HTTP statuses with which a server refuses any request, independently of the method."""
_UNNAMED_RESPONSES = frozenset({ExchangeKind.RESPONSE, ExchangeKind.MALFORMED})
"""Kinds of messages that may be an HTTP response without the id of its request."""
_TASKS = "tasks/"
_CALLS_WITH_QUESTIONS = frozenset({"tools/call", "prompts/get", "resources/read", "tasks/result"})
"""Requests during which the server may send requests to the client."""
MAX_KEPT_REQUESTS = 50
"""Maximum number of pending requests that are kept when the oldest rows are dropped."""
MAX_FLOWS = 10_000
"""Maximum number of closed connections whose requests may still get an answer."""
_MAX_CANDIDATES = 8
"""Maximum number of running requests among which a message without a reference is assigned to one."""
MAX_DECODED_BYTES = 4 << 20
"""Maximum size in bytes of a frame that is decoded as a whole."""
_MAX_NOTIFICATIONS = 10_000
"""Maximum number of notifications linked to one exchange. Further ones become separate exchanges."""
MAX_PARTS: Final = 1_000
"""Maximum number of parts of one operation. Further exchanges become separate lines."""
MAX_KEYS: Final = 20_000
"""Maximum number of `requestState` values and task ids that are kept to find later exchanges."""

Key = tuple[str, str]


def needs_all_bytes(frame: Frame) -> bool:
    """Return True if a cut frame can be paired only after all its bytes were read."""
    is_cut = len(frame.data) < frame.size <= MAX_DECODED_BYTES
    return is_cut and read_cut(frame.data, frame.end).kind is ExchangeKind.MALFORMED


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
        self.lines = array("q")
        """Rows that are not part of an operation that began earlier, in ascending order."""
        self.operation_of: dict[int, int] = {}
        """First row of the operation that a part belongs to, by row of the part."""
        self._operations: dict[int, LinkedExchanges] = {}
        self._expected: dict[Key, int] = {}

    def get(self, row: int) -> LinkedExchanges | None:
        """Return the operation that begins with `row`, or None if that row has no parts."""
        return self._operations.get(row)

    def client_s(self, row: int) -> float:
        """Return the seconds for which the operation that begins with `row` waited for the client."""
        operation = self._operations.get(row)
        return 0.0 if operation is None else operation.waited_s

    def start(self, row: int) -> LinkedExchanges:
        """Return the operation that contains `row`. Create it if necessary."""
        target = self.operation_of.get(row, row)
        operation = self._operations.get(target)
        if operation is None:
            operation = self._operations[target] = LinkedExchanges()
        return operation

    def add_line(self, row: int) -> None:
        """Add a new row that is not part of an operation."""
        self.lines.append(row)

    def join(self, row: int, to: int) -> LinkedExchanges | None:
        """Add a new row to the operation that contains row `to`. Return None if it has too many parts."""
        operation = self.start(to)
        if len(operation.rows) >= MAX_PARTS:
            self.lines.append(row)
            return None
        self.operation_of[row] = self.operation_of.get(to, to)
        operation.rows.append(row)
        return operation

    def expect(self, key: Key, row: int) -> None:
        """Remember that a later exchange with this key belongs to the operation of `row`."""
        self._expected.pop(key, None)
        self._expected[key] = self.operation_of.get(row, row)
        if len(self._expected) > MAX_KEYS:
            del self._expected[next(iter(self._expected))]

    def expected(self, key: Key) -> int | None:
        """Return the row that a new exchange with this key belongs to, or None if it is unknown or
        dropped.
        """
        row = self._expected.get(key)
        return row if row is not None and row >= self._base else None

    def move(self, row: int, to: int) -> None:
        """Replace `row` with the new row `to`."""
        self.lines.append(to)
        operation = self._operations.pop(row, None)
        if operation is not None:
            self._operations[to] = operation
            self.operation_of.update(dict.fromkeys(operation.rows, to))

    def drop(self, base: int) -> None:
        """Forget all rows before `base`."""
        self._base = base
        self.lines = self.lines[bisect_left(self.lines, base) :]
        drop_before(base, self.operation_of)
        drop_before(base, self._operations)
        for part in [part for part, target in self.operation_of.items() if target < base]:
            del self.operation_of[part]
        for operation in self._operations.values():
            operation.rows = array("q", (row for row in operation.rows if row >= base))

    def with_parts(self, rows: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the first row and all rows of each operation to which one of `rows` belongs."""
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


class RequestFlow:
    """Requests in one direction on one connection that may still get an answer."""

    __slots__ = ("agreed_at", "cancelled", "malformed", "probes", "token_of", "tokens", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Id, deque[int]] = {}
        """Rows of pending requests by id, oldest first. A peer may use an id for several requests."""
        self.cancelled: dict[Id, int] = {}
        self.tokens: dict[Id, int] = {}
        """Rows by progress token."""
        self.token_of: dict[int, Id] = {}
        """Progress token of each row."""
        self.malformed = NO_FRAME
        self.agreed_at = inf
        """Unix time of the first response without a JSON-RPC error. Infinity before it."""
        self.probes = deque[int](maxlen=_MAX_CANDIDATES)
        """Rows of `server/discover` and refused `initialize` requests without a result before `agreed_at`."""


class Pairing:
    """Pairs frames in order, and adds rows to the table. Not thread-safe."""

    def __init__(
        self, source: Source, *, rolling: bool = False, held_s: Callable[[int], float] = lambda row: 0.0
    ) -> None:
        """`held_s` returns the seconds for which the messages of a row were held at the desk."""
        self.table = Table(rolling=rolling)
        self.operations = Operations()
        self.altered = RollingColumn[int]("q")
        self.paired = 0
        """Number of frames that were paired or skipped. `Index` sets it."""
        self.notifications: dict[int, array[int]] = {}
        self.parts: dict[tuple[int, int], int] = {}
        self.row_of: ColumnValues[int] = column_of("q", rolling=rolling)
        """First row of each frame."""
        self.first_frame = 0
        """Number of the first frame that was not dropped."""
        self._source = source
        self._is_rolling = rolling
        self._held_s = held_s
        self._batches: dict[int, tuple[int, ...]] = {}
        self._flows: dict[int, RequestFlow] = {}
        self.slow_calls = SlowCallDetector()
        self.remarked: set[int] = set()
        """Rows with a message that has an error or a peculiarity (a remark)."""

    def add(self, frame: Frame) -> None:
        """Add the next frame."""
        heads = read_heads(frame.data) if frame.size == len(frame.data) else self._large(frame)
        rows = [self._add(head, frame) for head in heads]
        if heads[0].is_remarked or (b"\n" in frame.data and self._is_pipe(frame.connection)):
            self.remarked.update(rows)
        self.row_of.append(rows[0])
        if len(rows) > 1 or frame.data[:1] == b"[":
            self._batches[frame.number] = tuple(rows)
            self.parts.update({(row, frame.number): part for part, row in enumerate(rows)})

    def skip(self) -> None:
        """Skip a missing frame."""
        self.row_of.append(NO_FRAME)

    def skip_to(self, frame: int) -> None:
        """Skip the missing frames before `frame`. Only for rolling columns."""
        assert isinstance(self.row_of, RollingColumn)
        self.row_of.drop(frame)
        drop_before(frame, self._batches)
        self.first_frame = max(self.first_frame, frame)

    def rows_of(self, frame: int) -> tuple[int, ...]:
        """Return the rows that a frame belongs to."""
        if not self.first_frame <= frame < len(self.row_of) or (row := self.row_of[frame]) == NO_FRAME:
            return ()
        rows, base = self._batches.get(frame) or (row,), self.table.base
        return rows if min(rows) >= base else tuple(row for row in rows if row >= base)

    def pending(self) -> list[int]:
        """Return rows that wait for a response."""
        waiting = [rows for flow in list(self._flows.values()) for rows in list(flow.waiting.values())]
        return sorted(row for rows in waiting for row in rows)

    def give_up_closed(self) -> None:
        """End the pending requests of closed connections as lost."""
        for key, flow in list(self._flows.items()):
            info = self._source.connections.get(key >> 1)
            if info is None and (len(self._flows) <= MAX_FLOWS or not self._is_rolling):
                continue
            if info is not None and info.closed is None:
                continue
            # A running core forgets connections that closed long ago.
            closed = 0.0 if info is None or info.closed is None else info.closed
            for row in [row for rows in flow.waiting.values() for row in rows]:
                self._end_unanswered(row, max(closed, self.table.started[row]), Status.LOST)
            del self._flows[key]

    def pending_row(self, connection: int, direction: int, identifier: Id, latest_start: float) -> int:
        """Return the latest pending request with an id, recorded until a Unix time, or `NO_ROW`."""
        flow, started = self._flows.get(connection << 1 | direction), self.table.started
        rows = () if flow is None else flow.waiting.get(identifier, ())
        return next((row for row in reversed(rows) if started[row] <= latest_start), NO_ROW)

    def give_up(self, row: int, time: float, status: Status) -> bool:
        """End a pending request as lost or malformed. Return False if it is not pending. A lost request can
        still get a response.
        """
        flow = self._flows.get(self.table.connection[row] << 1 | self.table.direction[row])
        identifier = self.table.id[row]
        rows = None if flow is None or identifier is None else flow.waiting.get(identifier)
        if flow is None or identifier is None or not rows or row not in rows:
            return False
        rows.remove(row)
        if not rows:
            del flow.waiting[identifier]
        flow.cancelled[identifier] = row
        self._end_unanswered(row, max(time, self.table.started[row]), status)
        return True

    def drop(self, base: int) -> None:
        """Forget the rows before `base` and their frames. Only for rolling columns.

        The newest pending requests among these rows are moved to the end, so that they stay visible.
        """
        old_rows = [row for row in self.pending() if row < base]
        moved = {row: self._move_to_end(row) for row in old_rows[-MAX_KEPT_REQUESTS:]}
        for flow in self._flows.values():
            for key, rows in list(flow.waiting.items()):
                remaining = [moved.get(row, row) for row in rows if row >= base or row in moved]
                if remaining:
                    flow.waiting[key] = deque(remaining)
                else:
                    del flow.waiting[key]
            flow.tokens = {token: moved.get(row, row) for token, row in flow.tokens.items()}
            waiting = {row for rows in flow.waiting.values() for row in rows}
            flow.tokens = {token: row for token, row in flow.tokens.items() if row in waiting}
            flow.cancelled = {name: row for name, row in flow.cancelled.items() if row >= base}
            if flow.malformed < base:
                flow.malformed = NO_FRAME
        self.first_frame = max(self.first_frame, self.table.first[base])
        self.operations.drop(base)
        drop_before(base, self.notifications)
        drop_before(self.first_frame, self._batches)
        for part in [part for part in self.parts if part[0] < base]:
            del self.parts[part]
        self.remarked = {row for row in self.remarked if row >= base}
        self.slow_calls.forget(self.table.drop(base))
        if isinstance(self.row_of, RollingColumn):
            self.row_of.drop(self.first_frame)
        # Drop the changes of dropped rows. Changes are roughly in the order of the rows.
        start, stop = self.altered.base, len(self.altered)
        while start < stop and self.altered[start] < base:
            start += 1
        self.altered.drop(start)

    def _move_to_end(self, row: int) -> int:
        """Copy a pending row to the end. Return the new row."""
        new_row = self.table.copy(row, max(0, len(self.row_of) - 1))
        self.operations.move(row, new_row)
        frame = self.table.request[row]
        if rows := self._batches.get(frame):
            self._batches[frame] = tuple(new_row if each == row else each for each in rows)
        if frame >= self.first_frame and self.row_of[frame] == row:
            self.row_of[frame] = new_row
        if (row, frame) in self.parts:
            self.parts[new_row, frame] = self.parts[row, frame]
        if row in self.notifications:
            linked = self.notifications[new_row] = self.notifications.pop(row)
            for frame in linked:
                for part in self.rows_of(frame):
                    if self.table.under[part] == row:
                        self.table.under[part] = new_row
        return new_row

    def _large(self, frame: Frame) -> list[Head]:
        head = read_cut(frame.data, frame.end)
        if head.kind is not ExchangeKind.MALFORMED or frame.size > MAX_DECODED_BYTES:
            is_text = head.tokens and not has_base64(frame.data)
            return [replace(head, tokens=cost_of(frame.size, frame.size).tokens) if is_text else head]
        return read_heads(self._source.frame_bytes(frame.number))

    def _flow_of(self, connection: int, direction: int) -> RequestFlow:
        key = connection << 1 | direction
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = RequestFlow()
        return flow

    def _add(self, head: Head, frame: Frame) -> int:
        """Add one message and return its row."""
        if head.kind is ExchangeKind.RESPONSE and (row := self._pair_response(head, frame)) is not None:
            return row
        if head.kind in _UNNAMED_RESPONSES and (row := self._refused_probe(head, frame)) is not None:
            return row
        row = self.table.add(head, frame)
        if head.kind is ExchangeKind.REQUEST:
            self._add_request(head, frame, row)
            self._await_response(head, frame, row)
            return row
        if head.kind is ExchangeKind.NOTIFICATION:
            self._link_notification(head, frame, row)
            return row
        self.operations.add_line(row)
        if head.kind is ExchangeKind.MALFORMED:
            self._flow_of(frame.connection, frame.direction).malformed = row
        return row

    def _is_pipe(self, connection: int) -> bool:
        info = self._source.connections.get(connection)
        return info is not None and info.transport == "stdio"

    def _server(self, connection: int) -> str:
        info = self._source.connections.get(connection)
        return info.server if info else ""

    def _add_request(self, head: Head, frame: Frame, row: int) -> None:
        """Add a request as a separate line, or as a part of the operation that it continues."""
        operations = self.operations
        if head.state:
            first = operations.expected(state_key(self._server(frame.connection), head.state))
            if first is not None and self.table.label[first] == self.table.label[row]:
                self._add_round(row, first, frame)
                return
        elif head.method in _QUESTIONS:
            first = self._questioning_call(head, frame)
            if first is not None:
                if operation := operations.join(row, first):
                    operation.questions += 1
                    operation.add_question(frame.time)
                    self.altered.append(operations.operation_of[row])
                return
        elif head.method.startswith(_TASKS) and head.name:
            first = operations.expected(task_key(self._server(frame.connection), head.name))
            if first is not None:
                if operations.join(row, first):
                    self.altered.append(operations.operation_of[row])
                return
        operations.add_line(row)

    def _add_round(self, row: int, first: int, frame: Frame) -> None:
        """Add a round to the operation that began with `first`. The round has answers of the client."""
        if (operation := self.operations.join(row, first)) is not None:
            operation.rounds += 1
            operation.add_answer(frame.time)
            self.table.resume(first, frame.size)
            self.altered.append(first)

    def _questioning_call(self, head: Head, frame: Frame) -> int | None:
        """Return the call that a question belongs to: the call of its task, or the only running call."""
        if head.task:
            return self.operations.expected(task_key(self._server(frame.connection), head.task))
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None or max(len(flow.waiting), sum(map(len, flow.waiting.values()))) > _MAX_CANDIDATES:
            return None
        rows = [row for waiting in flow.waiting.values() for row in waiting]
        calls = [row for row in rows if self.table.method(row) in _CALLS_WITH_QUESTIONS]
        return calls[0] if len(calls) == 1 else None

    def _await_response(self, head: Head, frame: Frame, row: int) -> None:
        flow = self._flow_of(frame.connection, frame.direction)
        if head.id is not None:
            flow.waiting.setdefault(head.id, deque()).append(row)
            flow.cancelled.pop(head.id, None)
        if head.token is not None:
            flow.tokens[head.token] = row
            flow.token_of[row] = head.token

    def _pair_response(self, head: Head, frame: Frame) -> int | None:
        """Return the row that a response ends, or None if no request waits for this response."""
        flow = self._flow_of(frame.connection, 1 - frame.direction)
        if (identifier := head.id) is None:
            malformed = self._answer_malformed(flow, frame)
            return self._pair_without_id(head, flow, frame) if malformed is None else malformed
        rows = flow.waiting.get(identifier)
        if not rows and (similar_id := _similar_id(identifier, flow.waiting)) is not None:
            identifier, rows = similar_id, flow.waiting[similar_id]
            self.remarked.add(rows[0])
        if not rows:
            row = flow.cancelled.pop(identifier, None)
            if row is not None and self._is_lost(row):
                self._record_response(row, head, frame, flow)
                self._update_operation(row, head, frame)
            elif row is not None:
                self.table.answer(row, frame, Status.LATE)
                self.altered.append(row)
            return row
        row = rows.popleft()
        if not rows:
            del flow.waiting[identifier]
        self._record_response(row, head, frame, flow)
        self._update_operation(row, head, frame)
        return row

    def _update_operation(self, row: int, head: Head, frame: Frame) -> None:
        """Update the operation of a request after its response."""
        operations, table = self.operations, self.table
        operation = operations.operation_of.get(row)
        if operation is not None:
            if table.direction[row] != table.direction[operation]:
                operations.start(operation).add_answer(frame.time)
            elif table.label[row] == table.label[operation]:
                table.conclude(operation, row, frame.size)
            self.altered.append(operation)
        if head.needs_input:
            operations.start(row).add_question(frame.time)
            if head.state:
                operations.expect(state_key(self._server(frame.connection), head.state), row)
        if head.task and not table.method(row).startswith(_TASKS):
            operations.expect(task_key(self._server(frame.connection), head.task), row)

    def _end_unanswered(self, row: int, time: float, status: Status) -> None:
        """End a request without a response. If it is a round or a question, also update its operation."""
        table, operation = self.table, self.operations.operation_of.get(row)
        if self._is_negotiation(row, self._flow_of(table.connection[row], table.direction[row])):
            status = Status.NEGOTIATION
        table.end(row, time, status)
        self.altered.append(row)
        if operation is None:
            return
        if table.direction[row] != table.direction[operation]:
            self.operations.start(operation).add_answer(time)
        elif table.label[row] == table.label[operation]:
            table.end(operation, time, status)
        self.altered.append(operation)

    def _record_response(self, row: int, head: Head, frame: Frame, flow: RequestFlow) -> None:
        """Record a response that arrived in time."""
        status = _status(head)
        if status not in (Status.ERROR, Status.MALFORMED):
            if flow.agreed_at == inf:
                self._end_negotiation(flow, frame.time)
        elif self._is_negotiation(row, flow, head.code, frame.number):
            status = Status.NEGOTIATION
        elapsed = self.table.answer(row, frame, status)
        self.table.tokens[row] = head.tokens
        elapsed = max(0.0, elapsed - self.operations.client_s(row) - self._held_s(row))
        self.table.server_s[row] = elapsed
        self.slow_calls.add(self.table.label[row], elapsed)
        if head.revision:
            self.table.revision[row] = self.table.revision_code(head.revision)
        self.altered.append(row)
        token = flow.token_of.pop(row, None)
        if token is not None and flow.tokens.get(token) == row:
            del flow.tokens[token]

    def code_runs(self, row: int, *, runs: bool) -> None:
        """Record whether the code of a cancelled call still runs."""
        old_status, new_status = (Status.CANCELLED, Status.LEFT) if runs else (Status.LEFT, Status.CANCELLED)
        if STATUSES[self.table.status[row]] is old_status:
            self.table.end(row, self.table.ended[row], new_status)
        self.altered.append(row)

    def _is_lost(self, row: int) -> bool:
        return STATUSES[self.table.status[row]] in (Status.LOST, Status.NEGOTIATION)

    def is_negotiation(self, row: int) -> bool:
        """Return True if a request ended as part of the negotiation."""
        return STATUSES[self.table.status[row]] is Status.NEGOTIATION

    def _end_negotiation(self, flow: RequestFlow, time: float) -> None:
        """Record the first result of a flow. The requests in `probes` belong to the negotiation."""
        flow.agreed_at = time
        for row in flow.probes:
            if row >= self.table.base and self._is_unsuccessful(row):
                self.table.end(row, self.table.ended[row], Status.NEGOTIATION)
                self.remarked.discard(row)
                self.altered.append(row)
        flow.probes.clear()

    def _is_unsuccessful(self, row: int) -> bool:
        return STATUSES[self.table.status[row]] in (Status.ERROR, Status.LOST, Status.MALFORMED)

    def _is_negotiation(self, row: int, flow: RequestFlow, code: int = 0, frame: int = NO_FRAME) -> bool:
        """Return True if a request without a result belongs to the negotiation of the revision.

        `code` is the code of the error in `frame`. A client first sends `server/discover` to find out if the
        server is stateless. A refused `subscriptions/listen` counts as well, because many stateless servers
        do not support this method.
        """
        method = self.table.method(row)
        if method == _LISTEN:
            return code == ErrorCode.METHOD_NOT_FOUND
        is_refused_handshake = method == "initialize" and code == ErrorCode.UNSUPPORTED_VERSION
        if not (method == _PROBE or is_refused_handshake) or self.table.started[row] > flow.agreed_at:
            return False
        if flow.agreed_at < inf:
            return True
        flow.probes.append(row)
        return not is_refused_handshake and code != 0 and not self._is_refused_by_http(frame)

    def _refused_probe(self, head: Head, frame: Frame) -> int | None:
        """Return the request that the server refused with this HTTP body, which has no id or another id.

        A server that requires a session refuses a request without one before it reads the request. This does
        not apply to the steps of a login.
        """
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None or flow.malformed != NO_FRAME or (row := _only_request(flow)) is None:
            return None
        status = self._http_status(frame.number)
        if self.table.method(row) != _PROBE or sum(map(len, flow.waiting.values())) > 1 or status < "400":
            return None
        flow.waiting.clear()
        is_faulty, code = head.kind is ExchangeKind.MALFORMED, head.code or ErrorCode.INVALID_REQUEST
        self._record_response(row, replace(head, is_error=True, is_faulty=is_faulty, code=code), frame, flow)
        return row

    def _is_refused_by_http(self, frame: int) -> bool:
        """Return True if the HTTP status would have been the same for any request."""
        status = self._http_status(frame)
        return status in _REFUSED or status >= "500"

    def _http_status(self, frame: int) -> str:
        """Return the HTTP status of a response, or "" if none was recorded."""
        note = self._source.note(frame)
        status = _STATUS.match(note.line) if note is not None else None
        return "" if status is None else status[1]

    def _answer_malformed(self, flow: RequestFlow, frame: Frame) -> int | None:
        """Return the row of the malformed frame that an error without an id answers, or None."""
        row, flow.malformed = flow.malformed, NO_FRAME
        if row == NO_FRAME:
            return None
        self.table.answer(row, frame, Status.MALFORMED)
        self.altered.append(row)
        return row

    def _pair_without_id(self, head: Head, flow: RequestFlow, frame: Frame) -> int | None:
        """Return the request that a response without an id answers: the only running request.

        Clients assume the same.
        """
        row = _only_request(flow)
        if row is None or sum(map(len, flow.waiting.values())) > 1:
            return None
        flow.waiting.clear()
        self._record_response(row, head, frame, flow)
        self._update_operation(row, head, frame)
        self.remarked.add(row)
        return row

    def _link_notification(self, head: Head, frame: Frame, row: int) -> None:
        """Link a notification to its call. If it is a cancellation, end the call."""
        call = self._notified_call(head, frame)
        if call is not None:
            call = self.operations.operation_of.get(call, call)
            linked = self.notifications.setdefault(call, array("q"))
            if len(linked) < _MAX_NOTIFICATIONS:
                linked.append(frame.number)
                self.table.under[row] = call
                self.altered.append(call)
                return
        self.operations.add_line(row)

    def _notified_call(self, head: Head, frame: Frame) -> int | None:
        """Return the call that a notification belongs to, or None if it is unknown."""
        if head.method in _CANCELLATIONS and head.cancelled_id is not None:
            return self._cancel_request(head.cancelled_id, frame)
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None:
            return None
        row = flow.tokens.get(head.token) if head.token is not None else None
        if row is None and head.method == _LOG:
            row = _only_request(flow)
        if row is None and head.name and head.method.startswith(f"notifications/{_TASKS[:-1]}"):
            row = self.operations.expected(task_key(self._server(frame.connection), head.name))
        return row

    def _cancel_request(self, identifier: Id, frame: Frame) -> int | None:
        """End the request that is cancelled. Return its row."""
        flow = self._flow_of(frame.connection, frame.direction)
        rows = flow.waiting.pop(identifier, None)
        ended_row = flow.cancelled.get(identifier)
        if not rows and ended_row is not None and self._is_lost(ended_row):
            rows = deque((ended_row,))
        for row in rows or ():
            self._end_unanswered(row, frame.time, Status.CANCELLED)
            flow.cancelled[identifier] = row
        return rows[0] if rows else None


def _only_request(flow: RequestFlow) -> int | None:
    """Return the only running request, or None if there is none, or more than one."""
    if len(flow.waiting) != 1:
        return None
    (rows,) = flow.waiting.values()
    return rows[0]


def _similar_id(identifier: Id, waiting: Collection[Id]) -> Id | None:
    """Return the id of a pending request that equals `identifier` except for its type (`1` and `"1"`), or
    None.
    """
    if len(waiting) > _MAX_CANDIDATES:
        return None
    return next((key for key in waiting if not isinstance(key, float) and same_id(identifier, key)), None)


def _status(head: Head) -> Status:
    if head.is_faulty:
        return Status.MALFORMED
    if head.is_error:
        return Status.ERROR
    if head.needs_input:
        return Status.ASKS
    return Status.TOOL_ERROR if head.is_tool_error else Status.OK
