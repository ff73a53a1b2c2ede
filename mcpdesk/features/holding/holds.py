"""Messages that are held at the desk until a person has inspected, changed or released them.

A message is held before it is handled or sent. While messages may be held, `Holds` replaces `accept_message`
of a connection. Otherwise this code does not run. Use `Holds` on the core's loop; `view` may be read on any
thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from time import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson
from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import AnswerCut, RemoteProtocolError, SessionLost
from mcpdesk.features.holding.decision import Decision, Waiting
from mcpdesk.features.holding.faults import Fault, FaultKind, FaultRules
from mcpdesk.features.holding.held_message import (
    CannedCall,
    Delay,
    HeldDirections,
    HeldMessage,
    HoldView,
    Mock,
    Release,
    SetFaults,
    SetHold,
    Verdict,
    changed_message,
    name_of,
    questions_in,
    response_of,
)
from mcpdesk.features.holding.held_outlet import HeldOutlet, HeldQueue
from mcpdesk.protocol import codec
from mcpdesk.protocol.headers import adapted_headers
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, is_id
from mcpdesk.protocol.outlet import ACCEPTED, NULL_OUTLET, Answer, Outlet, Reply
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.interceptor import NOT_DONE, Accept, GiveAnswer, Interceptor
from mcpdesk.recorder.record import Direction, Frame, HeldMark

if TYPE_CHECKING:
    from mcpdesk.link.feature_part import Intent
    from mcpdesk.recorder.index.query import Node

MAX_HELD_MESSAGES = 100
"""Maximum number of held messages. Further messages pass."""
MAX_EDITABLE_BYTES = 256 << 10
"""Maximum length of a message that can be edited. Longer messages can only be released or dropped."""
MAX_DELAY_S = 3600.0
MAX_WAITING_REQUESTS = 1_000
"""Maximum number of requests that a rule delays or leaves unanswered. A further request releases the oldest
one.
"""


class Holds(Interceptor):
    """Rules and held messages of one core."""

    def __init__(
        self,
        recording: Recording,
        report: Callable[[str], object],
        on_rules: Callable[[], object] = lambda: None,
        disconnect: Callable[[int], object] = lambda connection: None,
        on_view: Callable[[], object] = lambda: None,
    ) -> None:
        """`report` notifies a person when the first message is held.

        `on_rules` is called after a change of the rules, and `on_view` after a change of `view`. `disconnect`
        disconnects the client with a connection number.
        """
        self.view = HoldView()
        self._recording, self._report, self._on_rules = recording, report, on_rules
        self._node: Node | None = None
        """Filter for the messages to hold, or None."""
        self._mocks: dict[CannedCall, JSONObject] = {}
        self._held: dict[int, Waiting] = {}
        self._delayed: dict[asyncio.Future[bool], tuple[int, Id | None]] = {}
        """Delayed and unanswered requests, with connection and id.

        The result of a future is True if the request must continue.
        """
        self._faults = FaultRules()
        self._disconnect, self._on_view = disconnect, on_view
        self._questions = RequestTable[tuple[int, Id], JSONObject](MAX_WAITING_REQUESTS)
        """Questions that servers asked while messages were held, by connection and id."""
        self._queues = WeakKeyDictionary[HeldQueue, tuple[int, Id | None]]()
        """Queues in use, each with its connection and request."""
        self._numbers = count(1)

    @property
    def is_active(self) -> bool:
        """True while a message is held, or while a later message may be held, mocked or given a fault."""
        return self._node is not None or bool(self._mocks or self._faults.rules or self._held)

    @property
    def parts(self) -> Sequence[HoldView]:
        """Rules and held messages."""
        return (self.view,)

    def do(self, intent: Intent[Any]) -> bool:
        """Execute an intent of a front end. Return False if its message is no longer held.

        Raises: ValueError for an invalid filter, rule or message.
        """
        match intent:
            case SetHold(rule, directions, is_once):
                self.set_rule(rule, directions, is_once=is_once)
            case SetFaults(text):
                self.set_faults(text)
            case Mock(what, answer):
                self.mock(what, answer)
            case Release(number, how, text):
                return self.decide(number, how, text)
            case Delay(number, seconds):
                return self.delay(number, seconds)
            case _:
                raise ValueError(NOT_DONE)
        return True

    def reset(self) -> None:
        """Release all held messages, and remove all rules and mocks."""
        self.set_rule("", HoldView().directions)
        self.set_faults("")
        for what in self.view.canned:
            self.mock(what, "")

    def set_faults(self, text: str) -> None:
        """Replace the fault rules. Messages that an earlier rule delays continue at once.

        Raises: ValueError for an invalid rule.
        """
        self._faults = FaultRules(text)
        for delayed, (_, identifier) in self._delayed.items():
            if identifier is not None and not delayed.done():
                delayed.set_result(True)
        self._update_view(struck=0)
        self._on_rules()

    def mock(self, what: CannedCall, answer: str) -> None:
        """Answer all requests like `what` with a recorded answer. An empty `answer` removes the mock.

        Raises: ValueError for an invalid answer.
        """
        self._mocks.pop(what, None)
        if answer:
            self._mocks[what] = response_of(0, answer)
        self._update_view()
        self._on_rules()

    def set_rule(self, rule: str, directions: HeldDirections, *, is_once: bool = False) -> None:
        """Hold messages that match a filter from now on, or only the next one if `is_once`.

        An empty filter releases all held messages.

        Raises: ValueError for an invalid filter, and for a filter that can never match.
        """
        from mcpdesk.features.holding.reachable_rules import HELD_MOMENTS, check_matches
        from mcpdesk.recorder.index.query import QueryError, parse  # not needed at the start

        try:
            node = parse(rule, time()) if rule.strip() else None
        except QueryError as error:
            raise ValueError(error.message) from None
        if node is not None:
            check_matches(node, HELD_MOMENTS[directions])
        self._node = node
        if node is None:
            for waiting in self._held.values():
                waiting.decide(Decision(Verdict.PASS))
        self._update_view(rule=rule.strip(), directions=directions, is_once=is_once and node is not None)
        self._on_rules()

    def wrap_handler(self, connection: int, accept: Accept) -> Accept:
        """Return the handler that replaces `accept` while messages of a connection may be held."""
        return partial(self._accept, connection, accept)

    def decide(self, number: int, verdict: Verdict, text: str = "") -> bool:
        """Decide about a held message. Return False if the message is no longer held.

        `text` is the changed message or the answer. Raises: ValueError for an invalid `text`.
        """
        waiting = self._held.get(number)
        if waiting is None:
            return False
        message: JSONObject = {}
        if verdict is Verdict.CHANGE:
            message = changed_message(waiting.view, waiting.message, text)
            if message == waiting.message:
                verdict = Verdict.PASS
        elif verdict is Verdict.ANSWER:
            if waiting.view.is_answer:
                raise ValueError("an answer cannot be answered; change it")
            if waiting.view.what == "tells":
                raise ValueError("a notification cannot be answered; change or drop it")
            message = response_of(waiting.view.id, text)
        waiting.decide(Decision(verdict, message))
        return True

    def delay(self, number: int, seconds: float) -> bool:
        """Release a held message after some seconds. Return False if the message is no longer held."""
        waiting = self._held.get(number)
        if waiting is None:
            return False
        if waiting.timer is not None:
            waiting.timer.cancel()
        seconds = max(0.0, min(seconds, MAX_DELAY_S))
        loop = asyncio.get_running_loop()
        waiting.timer = loop.call_later(seconds, waiting.decide, Decision(Verdict.PASS))
        waiting.view = replace(waiting.view, due=time() + seconds)
        self._update_view()
        return True

    def forget(self, connection: int) -> None:
        """Drop the held messages of a connection that has ended."""
        for queue in [queue for queue, (number, _) in self._queues.items() if number == connection]:
            queue.close()
        for waiting in self._held.values():
            if waiting.view.connection == connection:
                waiting.decide(Decision(Verdict.DROP))
        self._release(lambda number, identifier: number == connection)
        self._questions.take_all(lambda key, _: key[0] == connection)

    def close(self) -> None:
        """Drop all held messages without an answer, because the core stops."""
        for queue in list(self._queues):
            queue.close()
        for waiting in self._held.values():
            waiting.decide(Decision(Verdict.DROP))
        self._release(lambda number, identifier: True)
        self._node = None
        self._mocks.clear()
        self._faults = FaultRules()

    def _accept(
        self,
        connection: int,
        accept: Accept,
        message: Any,
        outlet: Outlet,
        headers: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        if not self.is_active or not isinstance(message, dict):
            return accept(message, outlet, headers, principal)
        identifier, method = message.get("id"), message.get("method")
        if isinstance(method, str) and is_id(identifier):
            return self._handle_request(connection, accept, message, outlet, headers, principal)
        subject = self._subject_to_hold(connection, message)
        if subject is None:
            return accept(message, outlet, headers, principal)
        return self._handle_one_way(connection, accept, message, subject, outlet, headers, principal)

    def _subject_to_hold(self, connection: int, message: JSONObject) -> JSONObject | None:
        """Return the message that the rules are applied to, or None if `message` need not be held.

        `message` is a notification or reply of a client. For a reply, they are applied to its question.
        """
        identifier, method = message.get("id"), message.get("method")
        if method == "notifications/cancelled":
            self._cancel(connection, message.get("params"))
            return None
        if isinstance(method, str) and self._faults.has_one_way:
            return message
        if self._node is None or self.view.directions == "answers":
            return None
        subject: JSONObject | None = message
        if not isinstance(method, str):
            subject = self._questions.take((connection, identifier)) if is_id(identifier) else None
        return subject if subject is not None and self._must_hold(connection, message, subject) else None

    async def _handle_one_way(
        self,
        connection: int,
        accept: Accept,
        message: JSONObject,
        subject: JSONObject,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal | None,
    ) -> Reply:
        """Hold a notification, or the reply to a question. Handle it after a person has released it."""
        released = await self._hold_one_way(connection, message, subject)
        if released is None:
            return ACCEPTED
        answer = accept(released, outlet, headers, principal)
        return answer if isinstance(answer, tuple) else await answer

    async def one_way(self, connection: int, message: JSONObject) -> JSONObject | None:
        """Hold a notification of a client, or its reply to a question, if a rule matches."""
        subject = self._subject_to_hold(connection, message)
        return message if subject is None else await self._hold_one_way(connection, message, subject)

    async def _hold_one_way(
        self, connection: int, message: JSONObject, subject: JSONObject
    ) -> JSONObject | None:
        """Apply the rules to a message. Return the message to handle, or None if it is dropped."""
        has_fault_rules = subject is message and self._faults.has_one_way
        if has_fault_rules and not await self._passes_fault_rules(connection, message):
            return None
        # The rule may have ended since the message arrived.
        if self.view.directions == "answers" or not self._must_hold(connection, message, subject):
            return message
        decision = await self._hold(connection, subject, message, "tells" if subject is message else "reply")
        if decision.verdict is Verdict.DROP:
            return None
        return decision.message if decision.verdict is Verdict.CHANGE else message

    def _must_hold(
        self, connection: int, message: JSONObject, subject: JSONObject, is_sent: bool = False
    ) -> bool:
        """Return True if a notification, a question or the reply to a question must be held."""
        if self._node is None:
            return False
        if subject is message:
            return self._matches(self._node, connection, time(), codec.encode(message), None, is_sent)
        request_data, message_data = codec.encode(subject), codec.encode(message)
        return self._matches(self._node, connection, time(), request_data, message_data, True)

    def _must_hold_sent(self, connection: int, data: bytes) -> bool:
        """Return True if a message of the server must be held. Remember a question for its reply."""
        message = codec.decode(data)
        if "method" in message and is_id(message.get("id")):
            self._questions.add((connection, message["id"]), message)
        if self._faults.has_one_way:
            return True
        return self.view.directions != "requests" and self._must_hold(connection, message, message, True)

    def open_queue(
        self, connection: int, deliver: Callable[[bytes], object], answer: GiveAnswer, of: Id | None = None
    ) -> HeldQueue:
        """Return a queue for a server's messages about the request `of`."""
        hold = partial(self._hold_sent, connection, answer, of)
        queue = HeldQueue(partial(self._must_hold_sent, connection), hold, deliver)
        self._queues[queue] = (connection, of)
        return queue

    async def sent(
        self, connection: int, data: bytes, answer: GiveAnswer, of: Id | None = None
    ) -> bytes | None:
        """Hold a message of a server if a rule matches."""
        if not self._must_hold_sent(connection, data):
            return data
        return await self._hold_sent(connection, answer, of, data)

    async def _hold_sent(
        self, connection: int, answer: GiveAnswer, of: Id | None, data: bytes
    ) -> bytes | None:
        message = codec.decode(data)
        if self._faults.has_one_way:
            if not await self._passes_fault_rules(connection, message, of, is_sent=True):
                return None
            if self.view.directions == "requests" or not self._must_hold(connection, message, message, True):
                return data
        what = "asks" if is_id(message.get("id")) else "tells"
        decision = await self._hold(connection, message, message, what, is_sent=True, of=of)
        if decision.verdict is Verdict.ANSWER:
            await answer(decision.message)
        if decision.verdict in (Verdict.ANSWER, Verdict.DROP):
            return None
        return codec.encode(decision.message) if decision.verdict is Verdict.CHANGE else data

    async def _handle_request(
        self,
        connection: int,
        accept: Accept,
        message: JSONObject,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal | None,
    ) -> Reply:
        """Hold a request, and later its answer, until a person releases each of them."""
        arrival = time()
        in_session = headers is not None and "Mcp-Session-Id" in headers
        try:
            request, response = await self.request(connection, message, in_session)
        except SessionLost as lost:
            error = RemoteProtocolError(ErrorCode.INVALID_REQUEST, str(lost))
            return (404, codec.error_response(message["id"], error), Phases(time()))
        if response is not None:
            return (200, codec.encode(response), Phases(time()))
        if request is None:
            return await self._send_no_answer(connection, headers)
        if request is not message and headers is not None:
            headers = adapted_headers(request, headers)

        async def answer_question(response: JSONObject) -> None:
            accept(response, NULL_OUTLET, headers, principal)

        queue = self.open_queue(connection, outlet.send, answer_question, request["id"])
        may_hold_messages = self._node is not None or self._faults.has_one_way
        queued_outlet = HeldOutlet(outlet, queue) if may_hold_messages else outlet
        answer = accept(request, queued_outlet, headers, principal)
        reply = answer if isinstance(answer, tuple) else await answer
        await queue.wait_until_empty()
        status, body, phases = reply
        if body is None or not self.needs_answers:
            return reply
        value = codec.decode(body)
        try:
            released = await self.answer(connection, request, arrival, value)
        except AnswerCut:
            if not await outlet.cut_off(body):
                self._disconnect(connection)
            return ACCEPTED
        if released is None:
            return await self._send_no_answer(connection, headers)
        if released is not value:
            status, body = (200 if "result" in released else status), codec.encode(released)
        return (status, body, phases)

    @property
    def needs_answers(self) -> bool:
        """True if an answer may be held or cut off."""
        return (self._node is not None and self.view.directions != "requests") or self._faults.has_cuts

    async def request(
        self, connection: int, message: JSONObject, in_session: bool = False
    ) -> tuple[JSONObject | None, JSONObject | None]:
        """Apply the fault rules and the mocks to a request, and hold it if the filter matches.

        Return the request to handle and None, or None and its response. Both are None for no answer.
        """
        if self._faults.rules and (fault := self._apply_fault(connection, message, in_session)) is not None:
            kind = fault.rule.kind
            if kind is FaultKind.SESSION:
                raise SessionLost("No such session: initialize again")
            if kind is FaultKind.ERROR:
                error = RemoteProtocolError(fault.rule.code, fault.rule.message)
                return None, codec.decode(codec.error_response(message["id"], error))
            if kind is FaultKind.LOSE:
                return None, None
            since = time()
            must_continue = await self._wait(connection, message["id"], fault.seconds)
            self._mark(connection, message, fault.description(), time() - since, message, {})
            if not must_continue:
                return None, None
        if self._mocks and (mock := self._mocks.get(self._call_key(connection, message))) is not None:
            answer = mock | {"id": message["id"]}
            self._mark(connection, message, Verdict.CANNED.value, 0.0, message, answer)
            return None, answer
        if self._node is None or self.view.directions == "answers":
            return message, None
        if not self._matches(self._node, connection, time(), codec.encode(message)):
            return message, None
        decision = await self._hold(connection, message, message, "request")
        if decision.verdict is Verdict.ANSWER:
            return None, decision.message
        if decision.verdict is Verdict.DROP:
            return None, None
        return (decision.message if decision.verdict is Verdict.CHANGE else message), None

    async def answer(
        self, connection: int, request: JSONObject, arrival: float, answer: JSONObject
    ) -> JSONObject | None:
        """Apply the fault rules to an answer, and hold it if the filter matches. None if it is dropped."""
        if self._faults.has_cuts and self._apply_fault(connection, request, False, arrival, answer):
            raise AnswerCut(codec.encode(answer))
        if self._node is None or self.view.directions == "requests":
            return answer
        exchange = codec.encode(request), codec.encode(answer)
        must_hold = self._matches(self._node, connection, arrival, *exchange)
        questions = questions_in(answer)
        if not must_hold and not any(self._must_hold(connection, each, each, True) for each in questions):
            return answer
        decision = await self._hold(connection, request, answer, "answer", is_sent=True)
        if decision.verdict is Verdict.DROP:
            return None
        return decision.message if decision.verdict is Verdict.CHANGE else answer

    async def wait_until_disconnected(self, connection: int) -> None:
        """Wait until the client has disconnected, because its request gets no answer."""
        await self._wait(connection, None, None)

    def _apply_fault(
        self,
        connection: int,
        request: JSONObject,
        in_session: bool,
        arrival: float = 0.0,
        answer: JSONObject | None = None,
    ) -> Fault | None:
        """Return the fault for a request or an answer, or None. Record the fault in the capture."""
        request_data, info = codec.encode(request), self._recording.index.connections.get(connection)
        answer_data = None if answer is None else codec.encode(answer)
        fault = self._faults.select_fault(
            info.peer if info else "",
            lambda node: self._matches(node, connection, arrival or time(), request_data, answer_data),
            is_answer=answer is not None,
            in_session=in_session,
        )
        if fault is not None:
            if fault.rule.kind is not FaultKind.DELAY:
                self._mark(connection, request, fault.description(), 0.0, answer or request, {})
            self._update_view(struck=self.view.struck + 1)
        return fault

    async def _passes_fault_rules(
        self, connection: int, message: JSONObject, of: Id | None = None, *, is_sent: bool = False
    ) -> bool:
        """Apply the fault rules to a notification or question. Return False if it must be dropped.

        `of` is the id of the request that the message is about.
        """
        data, info = codec.encode(message), self._recording.index.connections.get(connection)
        fault = self._faults.select_fault(
            info.peer if info else "",
            lambda node: self._matches(node, connection, time(), data, None, is_sent),
            is_answer=False,
            is_one_way=True,
        )
        if fault is None:
            return True
        since = time()
        is_delay = fault.rule.kind is FaultKind.DELAY
        must_continue = is_delay and await self._wait(connection, message.get("id", ""), fault.seconds)
        marked_message = message if of is None else {"id": of}
        mark_text = f"{message['method']} {fault.description()}"
        self._mark(connection, marked_message, mark_text, time() - since, message, {}, is_sent=is_sent)
        self._update_view(struck=self.view.struck + 1)
        return must_continue

    async def _wait(self, connection: int, identifier: Id | None, seconds: float | None) -> bool:
        """Delay a request, or wait until it is released. Return True if the request must be handled."""
        delayed = asyncio.get_running_loop().create_future()
        if len(self._delayed) >= MAX_WAITING_REQUESTS:
            oldest = next(iter(self._delayed))
            del self._delayed[oldest]
            if not oldest.done():
                oldest.set_result(True)
        self._delayed[delayed] = (connection, identifier)
        try:
            async with asyncio.timeout(seconds):
                return bool(await delayed)
        except TimeoutError:
            return True
        finally:
            self._delayed.pop(delayed, None)

    @property
    def waiting_count(self) -> int:
        """Number of requests that a rule delays or leaves unanswered."""
        return len(self._delayed)

    def _release(self, selects: Callable[[int, Id | None], bool]) -> None:
        """End the wait of the selected requests without handling them."""
        for delayed, (connection, identifier) in self._delayed.items():
            if not delayed.done() and selects(connection, identifier):
                delayed.set_result(False)

    async def _hold(
        self,
        connection: int,
        request: JSONObject,
        message: JSONObject,
        what: str,
        *,
        is_sent: bool = False,
        of: Id | None = None,
    ) -> Decision:
        """Wait for a person's decision about a message, and record the decision.

        `message` is `request` or the answer to it. `of` is the id of the request that a server's message is
        about. The decision is recorded with this id.
        """
        if len(self._held) >= MAX_HELD_MESSAGES:
            return Decision(Verdict.PASS)
        number, info = next(self._numbers), self._recording.index.connections.get(connection)
        text = codec.dumps(message, option=orjson.OPT_INDENT_2).decode()
        view = HeldMessage(
            number,
            connection,
            info.server if info else "",
            info.peer if info else "",
            message is not request,
            request["method"],
            name_of(request),
            request.get("id", ""),
            time(),
            text if len(text) <= MAX_EDITABLE_BYTES else "",
            None,
            what,
            is_sent,
        )
        waiting = self._held[number] = Waiting(view, message, of)
        if len(self._held) == 1:
            prefix = "the answer to " if view.is_answer else ""
            title = f"{prefix}{view.method} {view.name} of {view.peer}"
            self._report(f"held: {title} · e in the traffic opens it")
        if self.view.is_once:  # later messages pass, and this one stays held
            self._node = None
            self._update_view(rule="", is_once=False)
        else:
            self._update_view()
        try:
            decision = await waiting.decision
        finally:
            del self._held[number]
            if waiting.timer is not None:
                waiting.timer.cancel()
            self._update_view()
            if not self.is_active:
                self._on_rules()
        mark_text = decision.verdict.value
        if of is not None or what == "tells":
            mark_text = f"{request['method']} {mark_text}"
        marked_message = request if of is None else {"id": of}
        held_s = time() - view.since
        self._mark(connection, marked_message, mark_text, held_s, message, decision.message, is_sent=is_sent)
        return decision

    def _call_key(self, connection: int, request: JSONObject) -> CannedCall:
        """Return the server, method and name of a request."""
        info = self._recording.index.connections.get(connection)
        return CannedCall(info.server if info else "", request["method"], name_of(request))

    def _mark(
        self,
        connection: int,
        request: JSONObject,
        mark_text: str,
        held_s: float,
        message: JSONObject,
        replacement: JSONObject,
        is_sent: bool | None = None,
    ) -> None:
        """Record a decision in the capture. A notification is recorded with its method as id."""
        changes = not mark_text.endswith(Verdict.PASS)
        if is_sent is None:
            is_sent = message is not request
        self._recording.mark(
            HeldMark(
                connection,
                Direction.OUT if is_sent else Direction.IN,
                request["id"] if "id" in request else request["method"],
                time(),
                held_s,
                mark_text,
                codec.encode(message).decode()[:MAX_EDITABLE_BYTES] if changes else "",
                codec.encode(replacement).decode()[:MAX_EDITABLE_BYTES] if replacement else "",
            )
        )

    async def _send_no_answer(self, connection: int, headers: Mapping[str, str] | None) -> Reply:
        """Send no answer to a request. Over HTTP, it stays open until the client disconnects."""
        if headers is not None:
            await self.wait_until_disconnected(connection)
        return ACCEPTED

    def _cancel(self, connection: int, params: Any) -> None:
        """End the wait of a cancelled request, and drop the server's held messages about it."""
        request_id = params.get("requestId") if isinstance(params, dict) else None
        if not is_id(request_id):
            return
        self._release(lambda number, identifier: (number, identifier) == (connection, request_id))
        for queue in [queue for queue, key in self._queues.items() if key == (connection, request_id)]:
            queue.close()
        for waiting in self._held.values():
            subject_id = waiting.view.id if waiting.view.what == "request" else waiting.request_id
            if (waiting.view.connection, subject_id) == (connection, request_id):
                waiting.decide(Decision(Verdict.DROP))

    def _matches(
        self,
        node: Node,
        connection: int,
        arrival: float,
        request: bytes,
        answer: bytes | None = None,
        is_sent: bool = False,
    ) -> bool:
        """Return True if the filter matches an exchange, as in the list of traffic."""
        from mcpdesk.recorder.index.one_exchange import is_match

        connections = self._recording.index.connections
        direction = Direction.OUT if is_sent else Direction.IN
        answer_direction = Direction.IN if is_sent else Direction.OUT
        frames = [Frame(0, arrival, connection, direction, request, len(request))]
        if answer is not None:
            frames.append(Frame(1, time(), connection, answer_direction, answer, len(answer)))
        return is_match(node, frames, connections)

    def _update_view(self, **changes: Any) -> None:
        """Update the view. `changes` are new values of its rule, directions, counts and flags."""
        messages = tuple(waiting.view for waiting in self._held.values())
        mocked_calls, faults = tuple(self._mocks), self._faults.text
        self.view = replace(self.view, messages=messages, canned=mocked_calls, faults=faults, **changes)
        self._on_view()
