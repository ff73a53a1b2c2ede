"""Pairing of requests with responses, and assignment of related exchanges to an operation.

Responses are paired per connection and direction by id; `1` and `"1"` are different ids. Rounds of a call are
linked by `requestState`, and requests about a task by the task id. In revisions with a handshake, a question
belongs to the only running call. A message that cannot be assigned remains an exchange of its own.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Callable, Collection
from math import inf

from msgspec.structs import replace

from mcpdesk.protocol.catalogue.token_cost import cost_of, has_base64
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.reading.message import same_id
from mcpdesk.recorder.index.exchange import STATUSES, ExchangeKind, Id, Status
from mcpdesk.recorder.index.message_heads import Head, read_cut, read_heads
from mcpdesk.recorder.index.operations import Operations, drop_before, state_key, task_key
from mcpdesk.recorder.index.slow_calls import SlowCallDetector
from mcpdesk.recorder.index.table import NO_FRAME, NO_ROW, ColumnValues, RollingColumn, Table, column_of
from mcpdesk.recorder.record import Frame, Source

_CANCELLATION_METHODS = frozenset({"notifications/cancelled", "notifications/canceled"})
_LOG_METHOD = "notifications/message"
_QUESTION_METHODS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""Requests that a server may send to its client during a call."""
_PROBE_METHOD = "server/discover"
"""Method with which a client finds out if a server is stateless."""
_LISTEN_METHOD = "subscriptions/listen"
_STATUS_LINE = re.compile(r"HTTP\S* (\d{3})")
"""Beginning of an HTTP status line."""
_REFUSAL_STATUSES = frozenset({"401", "403", "407", "421", "429"})
"""HTTP statuses with which a server refuses any request, independently of the method."""
_UNNAMED_RESPONSES = frozenset({ExchangeKind.RESPONSE, ExchangeKind.MALFORMED})
"""Kinds of messages that may be an HTTP response without the id of its request."""
_TASKS_PREFIX = "tasks/"
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


def needs_all_bytes(frame: Frame) -> bool:
    """Return True if a cut frame can be paired only after all its bytes were read."""
    is_cut = len(frame.data) < frame.size <= MAX_DECODED_BYTES
    return is_cut and read_cut(frame.data, frame.end).kind is ExchangeKind.MALFORMED


class RequestFlow:
    """Requests in one direction on one connection that may still get an answer."""

    __slots__ = ("agreed_at", "malformed", "probes", "token_of", "tokens", "unanswered", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Id, deque[int]] = {}
        """Rows of pending requests by id, oldest first. A peer may use an id for several requests."""
        self.unanswered: dict[Id, int] = {}
        """Row of the latest request that ended without a response, by id. Its response may still arrive."""
        self.tokens: dict[Id, int] = {}
        """Rows by progress token."""
        self.token_of: dict[int, Id] = {}
        """Progress token of each row."""
        self.malformed = NO_ROW
        """Row of the latest malformed frame that has no answer, or `NO_ROW`."""
        self.agreed_at = inf
        """Unix time of the first response without a JSON-RPC error. Infinity before it."""
        self.probes = deque[int](maxlen=_MAX_CANDIDATES)
        """Rows of `server/discover` and refused `initialize` requests that had no result before
        `agreed_at`."""


class Pairing:
    """Pairs frames in order, and adds rows to the table. Not thread-safe."""

    def __init__(
        self, source: Source, *, rolling: bool = False, held_s: Callable[[int], float] = lambda row: 0.0
    ) -> None:
        """`held_s` returns the seconds for which the messages of a row were held at the desk."""
        self.table = Table(rolling=rolling)
        self.operations = Operations()
        self.altered = RollingColumn[int]("q")
        """Rows that changed after they were created, in the order of these changes."""
        self.paired = 0
        """Number of frames that were paired or skipped. `Index` sets it."""
        self.notifications: dict[int, array[int]] = {}
        """Frames of the notifications that belong to a call, by the row of the call."""
        self.parts: dict[tuple[int, int], int] = {}
        """Position of a message in its batch, by row and frame."""
        self.row_of: ColumnValues[int] = column_of("q", rolling=rolling)
        """First row of each frame."""
        self.first_frame = 0
        """Number of the first frame that was not dropped."""
        self._source = source
        self._is_rolling = rolling
        self._held_s = held_s
        self._batches: dict[int, tuple[int, ...]] = {}
        """Rows of the messages of a batch, by frame."""
        self._flows: dict[int, RequestFlow] = {}
        """Requests by connection and direction: the key is `connection << 1 | direction`."""
        self.slow_calls = SlowCallDetector()
        self.remarked: set[int] = set()
        """Rows with a message that has an error or a peculiarity (a remark)."""

    def add(self, frame: Frame) -> None:
        """Add the next frame."""
        heads = read_heads(frame.data) if frame.size == len(frame.data) else self._large_frame_heads(frame)
        rows = [self._add(head, frame) for head in heads]
        if heads[0].is_remarked or (b"\n" in frame.data and self._is_stdio(frame.connection)):
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
        rows = self._batches.get(frame) or (row,)
        base = self.table.base
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
        flow = self._flows.get(connection << 1 | direction)
        started = self.table.started
        rows = () if flow is None else flow.waiting.get(identifier, ())
        return next((row for row in reversed(rows) if started[row] <= latest_start), NO_ROW)

    def give_up(self, row: int, time: float, status: Status) -> bool:
        """End a pending request as lost or malformed. Return False if it is not pending.

        A lost request can still get a response.
        """
        flow = self._flows.get(self.table.connection[row] << 1 | self.table.direction[row])
        identifier = self.table.id[row]
        rows = None if flow is None or identifier is None else flow.waiting.get(identifier)
        if flow is None or identifier is None or not rows or row not in rows:
            return False
        rows.remove(row)
        if not rows:
            del flow.waiting[identifier]
        flow.unanswered[identifier] = row
        self._end_unanswered(row, max(time, self.table.started[row]), status)
        return True

    def drop(self, base: int) -> None:
        """Drop the rows before `base` and their frames. Only for rolling columns.

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
            flow.unanswered = {identifier: row for identifier, row in flow.unanswered.items() if row >= base}
            if flow.malformed < base:
                flow.malformed = NO_ROW
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
        """Move a pending row to the end of the table. Return the new row."""
        new_row = self.table.copy(row, max(0, len(self.row_of) - 1))
        self.operations.move(row, new_row)
        frame = self.table.request[row]
        if rows := self._batches.get(frame):
            self._batches[frame] = tuple(new_row if part == row else part for part in rows)
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

    def _large_frame_heads(self, frame: Frame) -> list[Head]:
        """Return the heads of a cut frame, if possible without reading all its bytes."""
        head = read_cut(frame.data, frame.end)
        if head.kind is not ExchangeKind.MALFORMED or frame.size > MAX_DECODED_BYTES:
            is_text = head.tokens and not has_base64(frame.data)
            return [replace(head, tokens=cost_of(frame.size, frame.size).tokens) if is_text else head]
        return read_heads(self._source.frame_bytes(frame.number))

    def _flow_of(self, connection: int, direction: int) -> RequestFlow:
        """Return the flow of a connection and direction. Create it if necessary."""
        key = connection << 1 | direction
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = RequestFlow()
        return flow

    def _add(self, head: Head, frame: Frame) -> int:
        """Add one message and return its row."""
        if head.kind is ExchangeKind.RESPONSE and (row := self._pair_response(head, frame)) is not None:
            return row
        if head.kind in _UNNAMED_RESPONSES and (row := self._pair_refused_probe(head, frame)) is not None:
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

    def _is_stdio(self, connection: int) -> bool:
        info = self._source.connections.get(connection)
        return info is not None and info.transport == "stdio"

    def _server_name(self, connection: int) -> str:
        info = self._source.connections.get(connection)
        return info.server if info else ""

    def _add_request(self, head: Head, frame: Frame, row: int) -> None:
        """Add a request as a separate line, or as a part of the operation that it continues."""
        operations = self.operations
        if head.state:
            first_row = operations.expected(state_key(self._server_name(frame.connection), head.state))
            if first_row is not None and self.table.label[first_row] == self.table.label[row]:
                self._add_round(row, first_row, frame)
                return
        elif head.method in _QUESTION_METHODS:
            first_row = self._questioning_call(head, frame)
            if first_row is not None:
                if operation := operations.join(row, first_row):
                    operation.questions += 1
                    operation.add_question(frame.time)
                    self.altered.append(operations.operation_of[row])
                return
        elif head.method.startswith(_TASKS_PREFIX) and head.name:
            first_row = operations.expected(task_key(self._server_name(frame.connection), head.name))
            if first_row is not None:
                if operations.join(row, first_row):
                    self.altered.append(operations.operation_of[row])
                return
        operations.add_line(row)

    def _add_round(self, row: int, first_row: int, frame: Frame) -> None:
        """Add a round to the operation that began with `first_row`. The round has answers of the client."""
        if (operation := self.operations.join(row, first_row)) is not None:
            operation.rounds += 1
            operation.add_answer(frame.time)
            self.table.resume(first_row, frame.size)
            self.altered.append(first_row)

    def _questioning_call(self, head: Head, frame: Frame) -> int | None:
        """Return the call that a question belongs to: the call of its task, or the only running call."""
        if head.task:
            return self.operations.expected(task_key(self._server_name(frame.connection), head.task))
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None or max(len(flow.waiting), sum(map(len, flow.waiting.values()))) > _MAX_CANDIDATES:
            return None
        rows = [row for waiting in flow.waiting.values() for row in waiting]
        calls = [row for row in rows if self.table.method(row) in _CALLS_WITH_QUESTIONS]
        return calls[0] if len(calls) == 1 else None

    def _await_response(self, head: Head, frame: Frame, row: int) -> None:
        """Add a request to those that wait for a response."""
        flow = self._flow_of(frame.connection, frame.direction)
        if head.id is not None:
            flow.waiting.setdefault(head.id, deque()).append(row)
            flow.unanswered.pop(head.id, None)
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
            row = flow.unanswered.pop(identifier, None)
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
        first_row = operations.operation_of.get(row)
        if first_row is not None:
            if table.direction[row] != table.direction[first_row]:  # a question to the client
                operations.get_or_add(first_row).add_answer(frame.time)
            elif table.label[row] == table.label[first_row]:  # a later round
                table.conclude(first_row, row, frame.size)
            self.altered.append(first_row)
        if head.needs_input:
            operations.get_or_add(row).add_question(frame.time)
            if head.state:
                operations.expect(state_key(self._server_name(frame.connection), head.state), row)
        if head.task and not table.method(row).startswith(_TASKS_PREFIX):
            operations.expect(task_key(self._server_name(frame.connection), head.task), row)

    def _end_unanswered(self, row: int, time: float, status: Status) -> None:
        """End a request without a response. If it is a round or a question, also update its operation."""
        table = self.table
        first_row = self.operations.operation_of.get(row)
        if self._belongs_to_negotiation(row, self._flow_of(table.connection[row], table.direction[row])):
            status = Status.NEGOTIATION
        table.end(row, time, status)
        self.altered.append(row)
        if first_row is None:
            return
        if table.direction[row] != table.direction[first_row]:  # a question to the client
            self.operations.get_or_add(first_row).add_answer(time)
        elif table.label[row] == table.label[first_row]:  # a later round
            table.end(first_row, time, status)
        self.altered.append(first_row)

    def _record_response(self, row: int, head: Head, frame: Frame, flow: RequestFlow) -> None:
        """Record a response that arrived in time."""
        status = _response_status(head)
        if status not in (Status.ERROR, Status.MALFORMED):
            if flow.agreed_at == inf:
                self._end_negotiation(flow, frame.time)
        elif self._belongs_to_negotiation(row, flow, head.code, frame.number):
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

    def set_code_running(self, row: int, *, is_running: bool) -> None:
        """Record whether the code of a cancelled call still runs."""
        old_status, new_status = Status.LEFT, Status.CANCELLED
        if is_running:
            old_status, new_status = new_status, old_status
        if STATUSES[self.table.status[row]] is old_status:
            self.table.end(row, self.table.ended[row], new_status)
        self.altered.append(row)

    def _is_lost(self, row: int) -> bool:
        """Return True if a request has no response, but counts as answered if one arrives later."""
        return STATUSES[self.table.status[row]] in (Status.LOST, Status.NEGOTIATION)

    def is_negotiation(self, row: int) -> bool:
        """Return True if a request ended as part of the negotiation."""
        return STATUSES[self.table.status[row]] is Status.NEGOTIATION

    def _end_negotiation(self, flow: RequestFlow, time: float) -> None:
        """Record the time of a flow's first result. The requests in `probes` belong to the negotiation."""
        flow.agreed_at = time
        for row in flow.probes:
            if row >= self.table.base and self._is_unsuccessful(row):
                self.table.end(row, self.table.ended[row], Status.NEGOTIATION)
                self.remarked.discard(row)
                self.altered.append(row)
        flow.probes.clear()

    def _is_unsuccessful(self, row: int) -> bool:
        """Return True if a request ended with an error or without a response."""
        return STATUSES[self.table.status[row]] in (Status.ERROR, Status.LOST, Status.MALFORMED)

    def _belongs_to_negotiation(
        self, row: int, flow: RequestFlow, code: int = 0, frame: int = NO_FRAME
    ) -> bool:
        """Return True if a request without a result belongs to the negotiation of the revision.

        A request that may turn out later to belong to it is added to `flow.probes`. `code` is the code of the
        error in `frame`. A client first sends `server/discover` to find out if the
        server is stateless. A refused `subscriptions/listen` counts as well, because many stateless servers
        do not support this method.
        """
        method = self.table.method(row)
        if method == _LISTEN_METHOD:
            return code == ErrorCode.METHOD_NOT_FOUND
        is_refused_handshake = method == "initialize" and code == ErrorCode.UNSUPPORTED_VERSION
        if not (method == _PROBE_METHOD or is_refused_handshake) or self.table.started[row] > flow.agreed_at:
            return False
        if flow.agreed_at < inf:
            return True
        flow.probes.append(row)
        return not is_refused_handshake and code != 0 and not self._is_refused_by_http(frame)

    def _pair_refused_probe(self, head: Head, frame: Frame) -> int | None:
        """Pair an HTTP body that has no id, or another id, with the only running `server/discover` request.

        Return the row of this request, or None if the body is not its refusal. A server that requires a
        session refuses a request without one before it reads the request. This does not apply to the steps of
        a login.
        """
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None or flow.malformed != NO_ROW or (row := _only_request(flow)) is None:
            return None
        status = self._http_status(frame.number)
        has_several_requests = sum(map(len, flow.waiting.values())) > 1
        if self.table.method(row) != _PROBE_METHOD or has_several_requests or status < "400":
            return None
        flow.waiting.clear()
        refusal = replace(
            head,
            is_error=True,
            is_faulty=head.kind is ExchangeKind.MALFORMED,
            code=head.code or ErrorCode.INVALID_REQUEST,
        )
        self._record_response(row, refusal, frame, flow)
        return row

    def _is_refused_by_http(self, frame: int) -> bool:
        """Return True if the HTTP status would have been the same for any request."""
        status = self._http_status(frame)
        return status in _REFUSAL_STATUSES or status >= "500"

    def _http_status(self, frame: int) -> str:
        """Return the HTTP status of a response, or "" if none was recorded."""
        note = self._source.note(frame)
        status = _STATUS_LINE.match(note.line) if note is not None else None
        return "" if status is None else status[1]

    def _answer_malformed(self, flow: RequestFlow, frame: Frame) -> int | None:
        """Pair an error without an id with the latest malformed frame. Return its row, or None."""
        row, flow.malformed = flow.malformed, NO_ROW
        if row == NO_ROW:
            return None
        self.table.answer(row, frame, Status.MALFORMED)
        self.altered.append(row)
        return row

    def _pair_without_id(self, head: Head, flow: RequestFlow, frame: Frame) -> int | None:
        """Pair a response without an id with the only running request, as clients do.

        Return its row, or None if not exactly one request is running.
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
        """Return the call that a notification belongs to, or None if it is unknown.

        If the notification cancels the call, end the call.
        """
        if head.method in _CANCELLATION_METHODS and head.cancelled_id is not None:
            return self._cancel_request(head.cancelled_id, frame)
        flow = self._flows.get(frame.connection << 1 | (1 - frame.direction))
        if flow is None:
            return None
        row = flow.tokens.get(head.token) if head.token is not None else None
        if row is None and head.method == _LOG_METHOD:
            row = _only_request(flow)
        if row is None and head.name and head.method.startswith(f"notifications/{_TASKS_PREFIX[:-1]}"):
            row = self.operations.expected(task_key(self._server_name(frame.connection), head.name))
        return row

    def _cancel_request(self, identifier: Id, frame: Frame) -> int | None:
        """End the request that is cancelled. Return its row."""
        flow = self._flow_of(frame.connection, frame.direction)
        rows = flow.waiting.pop(identifier, None)
        ended_row = flow.unanswered.get(identifier)
        if not rows and ended_row is not None and self._is_lost(ended_row):
            rows = deque((ended_row,))
        for row in rows or ():
            self._end_unanswered(row, frame.time, Status.CANCELLED)
            flow.unanswered[identifier] = row
        return rows[0] if rows else None


def _only_request(flow: RequestFlow) -> int | None:
    """Return the only running request, or None if there is none, or more than one."""
    if len(flow.waiting) != 1:
        return None
    (rows,) = flow.waiting.values()
    return rows[0]


def _similar_id(identifier: Id, waiting: Collection[Id]) -> Id | None:
    """Return the id of a pending request that differs from `identifier` only in its type (`1` and `"1"`).

    None if no pending request has such an id.
    """
    if len(waiting) > _MAX_CANDIDATES:
        return None
    return next((key for key in waiting if not isinstance(key, float) and same_id(identifier, key)), None)


def _response_status(head: Head) -> Status:
    """Return the status of a request with this response."""
    if head.is_faulty:
        return Status.MALFORMED
    if head.is_error:
        return Status.ERROR
    if head.needs_input:
        return Status.ASKS
    return Status.TOOL_ERROR if head.is_tool_error else Status.OK
