"""Traces of requests to upstream servers for OpenTelemetry: requests of clients, and of the desk itself.

A client's request is forwarded byte for byte, so its trace context stays that of the caller. The server's
span is then a child of the caller's span, like the desk's span. The desk's own requests carry the desk's
trace, so the server's spans are children of the desk's spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, time_ns
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.features.telemetry.span_records import OTHER, CallRecord
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id, params_of
from mcpdesk.protocol.methods import METHODS, canonical
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.trace import CallSpan
from mcpdesk.recorder.exchange_watch import ExchangeWatch, WatchedExchange
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.server.calls.call_watch import AskedQuestion

QUESTION_METHODS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
MAX_TRACED_REQUESTS = 1_000
"""Maximum number of requests, and of questions, that are traced at a time.

If the number is exceeded, the oldest one ends as unanswered.
"""
SESSION_HEADER, REVISION_HEADER = "mcp-session-id", "mcp-protocol-version"
"""Names of HTTP headers, in lower case."""
UNANSWERED, REFUSED, WITHDRAWN = "not answered", "refused", "withdrawn"
"""Outcomes of questions that failed."""
ACTIONS = frozenset({"accept", "decline", "cancel"})
"""Actions in the answers to elicitations. They become outcomes."""
RESERVED_CODES = range(-32768, -31999)
"""Error codes that JSON-RPC reserves. A server may define other codes, which are not counted separately."""


class _PassedCall(Struct, eq=False):
    """Request that has no answer yet."""

    connection: int
    record: CallRecord
    """Record that is used if the request ends without an answer."""


class _OpenQuestion(Struct):
    """Question that has no answer yet."""

    question: AskedQuestion
    call: _PassedCall | None
    """Request during which the question was sent, if known."""


class PassedExchange(WatchedExchange):
    """Requests of one message or batch."""

    def __init__(self, traffic: PassedTraffic, info: ConnectionInfo) -> None:
        self.traffic, self.info = traffic, info
        self.calls: list[_PassedCall] = []

    def handle_server_message(self, message: object) -> None:
        self.traffic.handle_server_message(self.info, message, self.calls)

    def end(self, status: int, can_continue: bool) -> None:
        if not can_continue:
            for call in self.calls:
                self.traffic.ended_unread(call, status)


class PassedTraffic(ExchangeWatch):
    """Traces of requests to upstream servers. Used on the core's loop."""

    def __init__(
        self,
        span: Callable[[object, Mapping[str, str] | None], CallSpan],
        put: Callable[[CallRecord], None],
        on_question: Callable[[AskedQuestion], None],
        target: Callable[[str, str, Mapping[str, object]], str],
    ) -> None:
        """`span(meta, headers)` creates the span of a request from its metadata and HTTP headers.

        `target(server, method, params)` returns the name or URI in a request, or "" if the server does not
        offer it. `put` receives the record of each finished request, and `on_question` each ended question.
        """
        self._span, self._put, self._on_question, self._target = span, put, on_question, target
        self._calls: dict[_PassedCall, None] = {}
        """Running requests, oldest first."""
        self._questions = RequestTable[tuple[int, Id], _OpenQuestion](MAX_TRACED_REQUESTS)
        """Open questions, by connection and id."""
        self._rounds = RequestTable[tuple[int, str], dict[str, _OpenQuestion]](MAX_TRACED_REQUESTS)
        """Questions that the client answers in its next request, by connection and `requestState`."""

    def follow(
        self, info: ConnectionInfo, message: object, headers: Mapping[str, str] | None = None
    ) -> PassedExchange:
        """Trace a message or batch that a client sends.

        `message` is None if the client only opens a stream to listen.
        """
        exchange = PassedExchange(self, info)
        for each in message if isinstance(message, list) else [message]:
            if not isinstance(each, dict):
                continue
            method, identifier = each.get("method"), each.get("id")
            if method is None and is_id(identifier):
                self._close(self._questions.take((info.number, identifier)), _outcome(each))
            elif method == "notifications/cancelled":
                self._end_cancelled(info.number, params_of(each).get("requestId"))
            elif isinstance(method, str) and is_id(identifier):
                exchange.calls.append(self._start_trace(info, each, headers))
        return exchange

    def ask(self, info: ConnectionInfo, request: JSONObject) -> tuple[JSONObject, PassedExchange]:
        """Trace a request of the desk. Return the request, with a trace context added if it has none."""
        exchange = PassedExchange(self, info)
        call = self._start_trace(info, request, None, is_outgoing=True)
        exchange.calls.append(call)
        params = params_of(request)
        meta = params.get("_meta", {})
        if isinstance(meta, dict) and "traceparent" not in meta:
            span = call.record.span
            flags = "01" if span.is_sampled else "00"
            meta = {**meta, "traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{flags}"}
            request = {**request, "params": {**params, "_meta": meta}}
        return request, exchange

    def handle_server_message(
        self, info: ConnectionInfo, message: object, calls: list[_PassedCall] | None = None
    ) -> None:
        """Handle a message of a server.

        `calls` are the requests in whose HTTP response the message arrived, or None if the message belongs to
        no particular request. An answered request is removed from the list.
        """
        if isinstance(message, list):
            for each in message:
                self.handle_server_message(info, each, calls)
            return
        if not isinstance(message, dict):
            return
        identifier, method = message.get("id"), message.get("method")
        candidates = calls or [call for call in self._calls if call.connection == info.number]
        if method is None:
            for call in candidates:
                if call.record.id == identifier:
                    self._end_answered(call, message)
                    if calls:
                        calls.remove(call)
                    return
        elif method == "notifications/cancelled":
            question_id = params_of(message).get("requestId")
            if is_id(question_id):
                self._close(self._questions.take((info.number, question_id)), WITHDRAWN)
        elif isinstance(method, str) and method in QUESTION_METHODS and is_id(identifier):
            asking_call = candidates[0] if len(candidates) == 1 else None
            question = self._question(info.server, method, asking_call)
            self._close(self._questions.add((info.number, identifier), question), UNANSWERED)

    def ended_unread(self, call: _PassedCall, status: int) -> None:
        """End a request whose HTTP exchange ended without a readable answer.

        `status` is the HTTP status, or 0 if the connection ended first.
        """
        if call not in self._calls:
            return
        is_cut_off = not status
        outcome = OutcomeKind.CANCELLED if is_cut_off else OutcomeKind.OK
        error_status = status if status >= 400 else 0
        self._end(call, replace(call.record, outcome=outcome, is_cut_off=is_cut_off, status=error_status))

    def connection_lost(self, connection: int) -> None:
        """End the requests and questions of a client that has disconnected."""
        for call in [each for each in self._calls if each.connection == connection]:
            self.ended_unread(call, 0)
        for _, open_question in self._questions.take_all(lambda key, _: key[0] == connection):
            self._close(open_question, UNANSWERED)
        for _, questions in self._rounds.take_all(lambda key, _: key[0] == connection):
            self._abandon(questions)

    def _start_trace(
        self,
        info: ConnectionInfo,
        message: JSONObject,
        headers: Mapping[str, str] | None,
        *,
        is_outgoing: bool = False,
    ) -> _PassedCall:
        """Start to trace a request. End the oldest one if `MAX_TRACED_REQUESTS` are traced."""
        params, method = params_of(message), canonical(message["method"])
        method = method if method in METHODS else OTHER
        header_values = headers or {}
        self._end_answered_questions(info, params)
        revision = header_values.get(REVISION_HEADER) or info.revision
        span = self._span(params.get("_meta"), headers)
        record = CallRecord(
            info.server,
            method,
            self._target(info.server, method, params),
            message["id"],
            revision if revision in BY_NAME else OTHER,
            info.transport,
            header_values.get(SESSION_HEADER, ""),
            replace(span, handler_id=span.span_id),  # without a handler, questions are children of the call
            time_ns(),
            0,
            outcome=OutcomeKind.CANCELLED,
            is_cut_off=True,
            is_outgoing=is_outgoing,
        )
        if len(self._calls) >= MAX_TRACED_REQUESTS:
            self.ended_unread(next(iter(self._calls)), 0)
        call = _PassedCall(info.number, record)
        self._calls[call] = None
        return call

    def _end_answered(self, call: _PassedCall, message: JSONObject) -> None:
        """End a request that the server has answered."""
        result, error = message.get("result"), message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        code = code if isinstance(code, int) and code in RESERVED_CODES else 0
        has_failed = isinstance(result, dict) and result.get("isError") is True
        has_own_code = "error" in message and not code  # a code that the server defines
        outcome = OutcomeKind.TOOL_ERROR if has_failed or has_own_code else OutcomeKind.OK
        self._end(call, replace(call.record, code=code, outcome=outcome, is_cut_off=False))
        if isinstance(result, dict) and isinstance(requests := result.get("inputRequests"), dict):
            self._trace_questions_in_result(call, requests, result.get("requestState"))

    def _end(self, call: _PassedCall, record: CallRecord) -> None:
        self._calls.pop(call, None)
        for _, open_question in self._questions.take_all(lambda _, open_question: open_question.call is call):
            self._close(open_question, UNANSWERED)
        self._put(replace(record, ended=time_ns()))

    def _end_cancelled(self, connection: int, identifier: object) -> None:
        """End a request that a client cancelled."""
        for call in list(self._calls):
            if call.connection == connection and call.record.id == identifier:
                self.ended_unread(call, 0)

    def _question(self, server: str, method: str, call: _PassedCall | None) -> _OpenQuestion:
        tool = ""
        if call is None:
            span = replace(self._span(None, None), handler_id=0)
        else:
            span = call.record.span
            tool = call.record.target if call.record.method == "tools/call" else ""
        return _OpenQuestion(AskedQuestion(method, server, tool, span, monotonic()), call)

    def _trace_questions_in_result(self, call: _PassedCall, requests: JSONObject, state: object) -> None:
        """Trace the questions in a result until the client sends a request with `state`."""
        if not isinstance(state, str):
            return
        questions = {
            key: self._question(call.record.server, each["method"], call)
            for key, each in requests.items()
            if isinstance(each, dict) and str(each.get("method")) in QUESTION_METHODS
        }
        self._abandon(self._rounds.add((call.connection, state), questions) or {})

    def _end_answered_questions(self, info: ConnectionInfo, params: Mapping[str, Any]) -> None:
        """End the questions that a request answers."""
        state, answers = params.get("requestState"), params.get("inputResponses")
        if not isinstance(state, str):
            return
        for key, open_question in (self._rounds.take((info.number, state)) or {}).items():
            answer = answers.get(key) if isinstance(answers, dict) else None
            self._close(open_question, UNANSWERED if answer is None else _outcome({"result": answer}))

    def _abandon(self, questions: dict[str, _OpenQuestion]) -> None:
        """End questions that the client has not answered."""
        for open_question in questions.values():
            self._close(open_question, UNANSWERED)

    def _close(self, open_question: _OpenQuestion | None, outcome: str) -> None:
        if open_question is not None:
            question = open_question.question
            question.outcome, question.ended = outcome, monotonic()
            question.has_failed = outcome in (UNANSWERED, REFUSED, WITHDRAWN)
            self._on_question(question)


def _outcome(answer: JSONObject) -> str:
    """Return a word for the outcome of a question. It does not reveal the answer."""
    result = answer.get("result")
    action = result.get("action") if isinstance(result, dict) else None
    outcome = action if isinstance(action, str) and action in ACTIONS else "answered"
    return REFUSED if "error" in answer else outcome
