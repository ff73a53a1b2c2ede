"""Connection of a client to one server.

The first request opens the connection, in the newest revision that both sides support.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from mcpdesk.client.answer_checks import checked_result, question_fault
from mcpdesk.client.answers.connection_faults import CONNECTION_BROKE
from mcpdesk.client.answers.refusal_words import newest_revision_in, repaired_error
from mcpdesk.client.flows import CallObserver, ClientCall, OutgoingRequest, RequestFlows, answer_alone
from mcpdesk.client.negotiation import (
    Agreement,
    agreement_from,
    agreement_from_discovery,
    declared_capabilities,
    is_contradiction,
    with_capabilities,
)
from mcpdesk.client.published_skills import PublishedSkills
from mcpdesk.client.timing import BackgroundMessages, CallDeadline, RenewalPace
from mcpdesk.client.transport import (
    REDIRECT_STATUSES,
    REFUSAL_STATUSES,
    ClientTransport,
    Incoming,
    Receive,
    ServerReply,
    ServerResponse,
    SessionGone,
    value_excerpt,
)
from mcpdesk.errors import CallError, HttpError, InvalidAnswer, ProtocolError, RpcError
from mcpdesk.plain_text import clean
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, invalid_params, is_id
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.revisions import LATEST, LATEST_HANDSHAKE, V2024_11_05, Revision
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, SUBSCRIPTION_KEY, allowed_result_types, request_meta

MAX_QUESTIONS = 100
"""Maximum number of unanswered questions of one call."""

AnswerQuestion: TypeAlias = Callable[[JSONObject, str], Awaitable[JSONObject]]
"""Handler of a question. It takes the parameters and the subject of the call, and returns the result.

Raises: ProtocolError to refuse the question; any other exception ends the call.
"""
Questions: TypeAlias = Mapping[str, AnswerQuestion]
"""Handlers of the questions that the server may ask now, by method."""
_LIST_CHANGES = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
LIST_CHANGES_FILTER: JSONObject = dict.fromkeys(_LIST_CHANGES, True)
"""Filter of a stateless subscription to changes of all lists."""


class ServerConnection:
    """Connection to one server over a transport, in any revision. Must be used on one event loop.

    >>> connection = ServerConnection(StreamableHttp(url, {}), {"name": "me", "version": "1"})
    >>> result = await connection.result("tools/call", {"name": "greet"})

    Every request raises a subclass of `CallError` if no response arrives.
    """

    def __init__(
        self,
        transport: ClientTransport,
        identity: Mapping[str, Any],
        *,
        questions: Callable[[], Questions] = dict,
        revision: Revision | None = None,
        agreement: Agreement | None = None,
        log_level: str | None = None,
        requires_task: Callable[[str], bool] | None = None,
        extensions: Mapping[str, JSONObject] = MappingProxyType({}),
    ) -> None:
        """`identity` is the name and version sent to the server. `questions` returns handlers of questions.
        `extensions` has the settings of the extensions to declare, by id. `log_level` requests log messages.

        If `revision` is given, no newer revision is tried. `agreement` is the result of an earlier
        negotiation. `requires_task` returns True for the name of a tool that only runs as a task.
        """
        self._transport = transport
        self._identity = dict(identity)
        self._questions = questions
        self._extensions = extensions
        self._revision = revision
        self._agreement = agreement
        self._log_level = log_level
        self._flows = RequestFlows(requires_task)
        self.skills = PublishedSkills(self.discover_server, self.list_all, self.result)
        """Skills of the server. The content of a listed skill is verified when it is read."""
        self._ids = count(1)
        self._opening_lock = asyncio.Lock()
        self._is_attached = False
        """True once the transport was opened by this object, and delivers messages to it."""
        self.unaccepted_method = "initialize"
        """Method of the handshake message that the server has not accepted yet."""
        self._is_probe_unanswered = False
        """True if the probe for the newest revision was sent, but has no valid answer yet."""
        self.probe_outcome: ServerReply | CallError | None = None
        """Reply to the probe, or its error. None if the probe was not sent or not answered."""
        self._running_calls: dict[int, ClientCall] = {}
        """Running calls, by the id of their current request, which is also their progress token."""
        self._unrelated_call = self._new_call("")
        """Placeholder call for questions that belong to no known call."""
        self._background_messages = BackgroundMessages()
        self._listen_task: asyncio.Task[None] | None = None
        self._can_receive = asyncio.Event()
        """Set once notifications can arrive, or if the transport has no stream for them."""
        self.listeners: list[Callable[[str, JSONObject], None]] = []
        """Functions that receive the method and parameters of every notification."""
        self.new_session_listeners: list[Callable[[], None]] = []
        """Functions that are called after a new session replaced a lost one, with its subscriptions."""
        self.remark_listeners: list[Callable[[Remark, Id | None], None]] = []
        """Functions that receive every remark about a server message, and the id of its request, if known."""

    @property
    def target(self) -> str:
        """Address of the server, without secrets."""
        return self._transport.target

    @property
    def unexpected_bytes(self) -> str:
        """Description of the bytes received instead of the latest answer, for a person, or "" if unknown."""
        return self._transport.unexpected_bytes

    @property
    def tools(self) -> Mapping[str, JSONObject]:
        """Tools of the latest list, by name."""
        return self._flows.tools

    async def open(self) -> Agreement:
        """Connect and agree on a revision, unless already done. Return the agreement. Raises: CallError."""
        async with self._opening_lock:
            if self._agreement is None or not self._transport.is_open or not self._is_attached:
                with self._naming_target():
                    await self._connect()
            assert self._agreement is not None
            return self._agreement

    async def discover_server(self) -> Agreement:
        """Connect, and discover the server's capabilities even if the revision was given.

        Raises: CallError.
        """
        agreement = await self.open()
        if agreement.revision.is_stateless and not agreement.capabilities:
            with self._naming_target():
                agreement = self._agreement = agreement_from_discovery(await self._discover()) or agreement
        return agreement

    async def request(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        observer: CallObserver | None = None,
        deadline: CallDeadline | None = None,
    ) -> ServerResponse:
        """Return the response to a request, after all questions are answered and any task has finished.

        Cancelling this coroutine cancels the request. Raises: CallError; ProtocolError if a question was
        refused and the protocol cannot report that to the server; any exception raised while answering a
        question.
        """
        params = params or {}
        subject = str(params.get("name") or params.get("uri") or method)
        await self.open()
        call = self._new_call(subject, observer, deadline)
        with self._naming_target():
            response = await self._flows.request(call, method, params)
            if method == "resources/read" and response.result is not None:
                await self.skills.verify(subject, checked_result(method, response.result))
            return response

    async def result(
        self,
        method: str,
        params: JSONObject | None = None,
        *,
        observer: CallObserver | None = None,
        deadline: CallDeadline | None = None,
    ) -> JSONObject:
        """Return the validated result of a request. Raises: RpcError for an error response."""
        response = await self.request(method, params, observer=observer, deadline=deadline)
        with self._naming_target():
            return checked_result(method, response.value())

    async def list_all(self, method: str, key: str, faults: list[str] | None = None) -> list[JSONObject]:
        """Return the items of all pages of a list, such as `tools/list` and `tools`.

        If `faults` is given, invalid items are omitted, and their faults are added to `faults`.
        """
        await self.open()
        with self._naming_target():
            return await self._flows.list_all(self._new_call(method), method, key, faults)

    def listen(self) -> None:
        """Receive notifications that belong to no request, if the transport has a stream for them."""
        if self._listen_task is None:
            self._listen_task = asyncio.get_running_loop().create_task(self._listen())
            self._listen_task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def open_listening_stream(self) -> None:
        """Open the stream that `listen` uses, and wait until it is open. Servers may send questions on it."""
        self.listen()
        await self._can_receive.wait()

    async def wait_until_notifications_end(self) -> None:
        """Wait until no further notification can arrive. Raises: CallError if the connection ended."""
        with self._naming_target():
            if self._listen_task is not None:
                await self._listen_task
            if not self._transport.is_open:
                raise CallError("the connection ended")
            await self._transport.until_ended()

    @property
    def log_level(self) -> str:
        """Least severe level of requested log messages, or "" if none are requested."""
        return self._log_level or ""

    async def set_log_level(self, level: str) -> None:
        """Request log messages of this level and above.

        In the stateless era, the level is sent with each later request. Raises: CallError if the server does
        not support log messages, or rejects the level.
        """
        agreement = await self.open()
        if not agreement.sends_logs:
            raise CallError("it sends no log messages (no capability `logging`)", target=self.target)
        if not agreement.revision.is_stateless:
            await self.result("logging/setLevel", {"level": level})
        self._log_level = level

    async def notify_roots_changed(self) -> None:
        """Send `notifications/roots/list_changed` if the revision supports it. Raises: CallError."""
        agreement = self._agreement
        if agreement is not None and not agreement.revision.is_stateless and self._transport.is_open:
            await self.notify("notifications/roots/list_changed", {})

    async def notify(self, method: str, params: JSONObject) -> None:
        """Connect, and send a notification. Raises: CallError."""
        await self.open()
        with self._naming_target():
            await self._transport.send({"jsonrpc": "2.0", "method": method, "params": params})

    def remark(self, remark: Remark, request: Id | None = None) -> None:
        """Report a remark about a server message to all listeners and to the transport, which records it.

        `request` is the id of the request that the message answers.
        """
        self._transport.record_remark(remark, request)
        self._report_remarks((remark,), request)

    def _report_remarks(self, remarks: Sequence[Remark], request: Id | None) -> None:
        for remark in remarks:
            for listener in self.remark_listeners:
                listener(remark, request)

    async def _roundtrip(
        self, transport: ClientTransport, message: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Run one exchange and report remarks about the reply."""
        reply = await transport.exchange(message, headers, receive)
        self._report_remarks(reply.remarks, message["id"])
        if isinstance(reply.message, dict) and (reply.status < 400 or "jsonrpc" in reply.message):
            repaired, fault = repaired_error(reply.message)
            if fault:
                self.remark(Remark(RemarkKind.ERROR_SHAPE, fault), message["id"])
                reply = replace(reply, message=repaired)
        return reply

    async def close(self) -> None:
        """Close the connection. Running requests fail."""
        for task in [self._listen_task, *self._unrelated_call.questions.values()]:
            if task is not None:
                task.cancel()
        await self._background_messages.end()
        await self._transport.close()

    # opening

    async def _connect(self) -> None:
        was_open = self._transport.is_open
        await self._transport.open(self._receive)
        if self._agreement is None or not was_open:
            self._agreement = await self._negotiate(self._agreement)
        self._is_attached = True
        self._flows.revision = self._agreement.revision
        self._flows.mirrors_arguments = self._transport.mirrors_arguments

    async def _negotiate(self, earlier: Agreement | None) -> Agreement:
        """Negotiate the newest revision that both sides support.

        `earlier` is the agreement before a reconnection. The revision of `earlier` is used again.
        """
        if earlier is None and self._revision is None:
            agreement = await self._probe()
            if agreement is not None:
                return agreement
        revision = earlier.revision if earlier is not None else self._revision or LATEST_HANDSHAKE
        if revision.is_stateless:
            return earlier or Agreement(revision)
        try:
            return await self._handshake_with_retry(revision)
        except RpcError as error:
            # This may be a stateless server that was too slow to answer the probe in time.
            agreement = None
            if error.code == ErrorCode.UNSUPPORTED_VERSION and self._revision is None:
                agreement = agreement_from_discovery(await self._discover())
            if agreement is None:
                raise
            self._transport.apply_revision(agreement.revision, ServerReply())
            return agreement
        except HttpError as error:
            older = self._transport.older_transport()
            if older is None or not 400 <= error.status < 500 or error.status in (401, 403):
                raise
            try:
                await older.open(self._receive)
            except HttpError:
                raise error from None
            self._transport = older
            return await self._run_handshake(V2024_11_05)

    async def _handshake_with_retry(self, revision: Revision) -> Agreement:
        """Perform a handshake. If the server refuses the revision and names another one, try that one."""
        try:
            return await self._run_handshake(revision)
        except (RpcError, HttpError) as error:
            text = f"{error.message} {error.data!r}" if isinstance(error, RpcError) else error.body
            other_revision = newest_revision_in(text, revision)
            is_refusal = isinstance(error, RpcError) or error.status in (400, 406, 415, 422)
            if other_revision is None or not is_refusal or self._revision is not None:
                raise
            return await self._run_handshake(other_revision)
        except CallError:
            # A program that started slowly may end when it reads the probe for the newest revision.
            if not self._is_probe_unanswered or self._transport.is_open:
                raise
            self._is_probe_unanswered = False
            await self._transport.open(self._receive)
            return await self._handshake_with_retry(revision)

    async def _probe(self) -> Agreement | None:
        """Send the probe, and return the agreement, or None if the server needs a handshake.

        The probe is a request that only servers of the stateless era support. A server that ends because of
        the probe, or sends an invalid answer, is assumed to need a handshake.
        """
        transport = self._transport
        try:
            async with asyncio.timeout(transport.probe_s):
                reply = self.probe_outcome = await self._discover()
                if is_contradiction(reply):
                    reply = self.probe_outcome = await self._discover()
        except TimeoutError:
            self._is_probe_unanswered = True
            return None
        except InvalidAnswer as error:
            self._is_probe_unanswered = True
            self.probe_outcome = error
            return None
        except CallError as error:
            self.probe_outcome = error
            if transport.is_open:
                if isinstance(error, HttpError) and error.message == CONNECTION_BROKE:
                    return None
                raise
            await transport.open(self._receive)
            return None
        agreement = agreement_from_discovery(reply)
        if agreement is not None:
            transport.apply_revision(agreement.revision, reply)
        return agreement

    async def _discover(self) -> ServerReply:
        message = self._message(LATEST, OutgoingRequest("server/discover", {}), None)
        return await self._roundtrip(self._transport, message, {}, self._receive)

    async def _run_handshake(self, revision: Revision) -> Agreement:
        """Perform one handshake that proposes a revision. Return the agreement. Raises: CallError."""
        transport = self._transport
        params = {
            "protocolVersion": revision.name,
            "capabilities": self._capabilities(announces_changes=True),
            "clientInfo": self._identity,
        }
        self.unaccepted_method = "initialize"
        message = self._message(revision, OutgoingRequest("initialize", params), None)
        reply = await self._roundtrip(transport, message, {}, self._receive)
        agreement, remarks = agreement_from(reply.response(message["id"]).value())
        for remark in remarks:
            self.remark(remark, message["id"])
        transport.apply_revision(agreement.revision, reply)
        self.unaccepted_method = "notifications/initialized"
        await self._send_initialized(transport, message["id"])
        if self._log_level is not None and "logging" in agreement.capabilities:
            self.unaccepted_method = "logging/setLevel"
            level = OutgoingRequest("logging/setLevel", {"level": self._log_level})
            message = self._message(agreement.revision, level, None)
            await self._roundtrip(transport, message, {}, self._receive)
        return agreement

    async def _send_initialized(self, transport: ClientTransport, handshake: Id) -> None:
        """End the handshake. A server that refuses this notification may still answer requests."""
        try:
            await transport.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except HttpError as error:
            is_refused = not error.status or error.status in REFUSAL_STATUSES | REDIRECT_STATUSES
            if is_refused or newest_revision_in(error.body, LATEST):
                raise
            text = f"it refuses notifications/initialized: {error.message}; its sessions may be incomplete"
            self.remark(Remark(RemarkKind.SESSION, text), handshake)

    def _capabilities(self, announces_changes: bool = False) -> JSONObject:
        return declared_capabilities(self._questions(), self._extensions, announces_changes=announces_changes)

    # requests

    def _new_call(
        self, subject: str, observer: CallObserver | None = None, deadline: CallDeadline | None = None
    ) -> ClientCall:
        return ClientCall(subject, self.send, self.send_later, self.answer_questions, observer, deadline)

    def send_later(self, request: OutgoingRequest, subject: str) -> None:
        """Send a request about an abandoned call in the background. Its outcome is ignored."""
        self._background_messages.begin(lambda: self.send(request, self._new_call(subject)))

    async def send(self, step: OutgoingRequest, call: ClientCall) -> ServerResponse:
        """Run one exchange. If the server has lost the session, open a new session and retry once."""
        agreement = self._agreement
        try:
            return await self._exchange(step, call)
        except SessionGone:
            await self._replace_session(agreement)
            return await self._exchange(step, call)

    async def _replace_session(self, old_agreement: Agreement | None) -> None:
        """Open a new session, unless a session was already opened after `old_agreement`."""
        async with self._opening_lock:
            if self._agreement is old_agreement:
                self._agreement = await self._negotiate(old_agreement)
                self._flows.revision = self._agreement.revision
                for notify in self.new_session_listeners:
                    notify()

    async def _exchange(self, step: OutgoingRequest, call: ClientCall) -> ServerResponse:
        """Send a request, and answer questions of the server until the response arrives."""
        transport, agreement = self._transport, self._agreement
        assert agreement is not None
        message = self._message(agreement.revision, step, call.observer)
        identifier = message["id"]
        if step.is_main and call.observer is not None:
            call.observer.sent(identifier)
        self._running_calls[identifier] = call
        try:
            async with asyncio.TaskGroup() as call.group:
                # Reading continues while a question is answered, because the server may withdraw it.
                receive = partial(self._receive, call=call)
                reply = await self._roundtrip(transport, message, step.headers, receive)
                for task in call.questions.values():
                    task.cancel()
        except BaseExceptionGroup as group_error:
            error = group_error.exceptions[0]
            self._cancel(identifier, agreement, error)
            raise error from None
        except BaseException as error:
            self._cancel(identifier, agreement, error)
            raise
        finally:
            call.group = None
            del self._running_calls[identifier]
        return reply.response(identifier, allowed_result_types(message))

    def _cancel(self, identifier: int, agreement: Agreement, error: BaseException) -> None:
        """Send `notifications/cancelled`, unless closing the connection already cancels the request."""
        is_cancelled_by_closing = agreement.revision.is_stateless and self._transport.closing_cancels
        if isinstance(error, CallError) or is_cancelled_by_closing:
            return
        params = {"requestId": identifier, "reason": "the caller no longer waits"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        self._background_messages.begin(lambda: self._transport.send(message))

    def _message(
        self, revision: Revision, step: OutgoingRequest, observer: CallObserver | None
    ) -> JSONObject:
        identifier, params = next(self._ids), step.params
        caller_meta = params.get("_meta")
        own_meta: JSONObject = {}
        if revision.is_stateless:
            own_meta = request_meta(revision, self._identity, self._log_level)
            capabilities = caller_meta.get(CAPABILITIES_KEY) if isinstance(caller_meta, dict) else None
            added_capabilities = capabilities if isinstance(capabilities, dict) else {}
            declared = with_capabilities(self._capabilities(), step.capabilities)
            declared = with_capabilities(declared, added_capabilities)
            caller_meta = {**(caller_meta or {}), CAPABILITIES_KEY: declared}
        if observer is not None and step.method != "subscriptions/listen":  # a subscription has no progress
            own_meta["progressToken"] = identifier
        if own_meta:
            params = params | {"_meta": own_meta | (caller_meta or {})}
        return {"jsonrpc": "2.0", "id": identifier, "method": step.method, "params": params}

    # questions

    async def answer_questions(self, requests: Any, call: ClientCall) -> JSONObject:
        """Return the answers to the questions in a result, by key.

        Raises: InvalidAnswer for an invalid question, or one that this client does not support.
        """
        questions = self._questions()
        if not questions:
            raise InvalidAnswer("it asks questions, but this client cannot answer any")
        if not isinstance(requests, dict):
            raise InvalidAnswer("inputRequests is not an object", excerpt=value_excerpt(requests))
        for key, question in requests.items():
            method = question.get("method") if isinstance(question, dict) else None
            if not isinstance(method, str) or method not in questions:
                raise InvalidAnswer(f"{key[:80]!r} asks for {str(method)[:80]!r}, which was not offered")
            if fault := question_fault(method, question.get("params", {})):
                raise InvalidAnswer(f"the question {key[:80]!r} is invalid: {fault}")
        try:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    key: group.create_task(self._answer(question["method"], question.get("params", {}), call))
                    for key, question in requests.items()
                }
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        return {key: task.result() for key, task in tasks.items()}

    async def _answer(self, method: str, params: JSONObject, call: ClientCall) -> JSONObject:
        """Answer a question. Raises: ProtocolError if the question is refused."""
        with call.deadline_stopped():
            return await self._questions()[method](params, call.subject)

    def _refusal(self, method: str, params: JSONObject) -> ProtocolError | None:
        """Return the error with which a question must be refused, or None."""
        if method not in self._questions():
            return ProtocolError(ErrorCode.METHOD_NOT_FOUND, f"This client does not answer {method[:80]}")
        fault = question_fault(method, params)
        return invalid_params(fault) if fault else None

    def _refuse(self, identifier: Id | float | None, refusal: ProtocolError) -> None:
        answer = {"error": codec.error_object(refusal)}
        self._background_messages.begin(lambda: self._respond(identifier, answer))

    def _receive(self, incoming: Incoming, call: ClientCall | None = None) -> None:
        """Handle a request or notification of the server. `call` is the call that it belongs to, if known."""
        self._report_remarks(incoming.remarks, incoming.request)
        if (message := incoming.message) is None:
            return
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            return
        if "id" not in message:
            self._on_notification(method, params, call)
        elif self._agreement and self._agreement.revision.is_stateless:
            revision = self._agreement.revision.name
            self._report_refused_question(method, f"{revision} has no requests of servers")
        elif is_id(message["id"]):
            self._on_request(message["id"], method, params, call)
        else:
            refusal = ProtocolError(ErrorCode.INVALID_REQUEST, "its id is neither a text nor an integer")
            self._report_refused_question(method, str(refusal))
            self._refuse(message["id"] if isinstance(message["id"], float) else None, refusal)

    def _report_refused_question(self, method: str, fault: str) -> None:
        """Report a remark about a request of the server that is refused."""
        text = f"the server sent a request {clean(method[:80], newlines=False)}, which was refused: {fault}"
        self.remark(Remark(RemarkKind.QUESTION, text))

    def _on_request(self, identifier: Id, method: str, params: JSONObject, call: ClientCall | None) -> None:
        """Answer a request of the server in a separate task."""
        if method == "ping":
            self._background_messages.begin(lambda: self._respond(identifier, {"result": {}}))
            return
        if refusal := self._refusal(method, params):
            if refusal.code == ErrorCode.INVALID_PARAMS:
                self._report_refused_question(method, str(refusal))
            self._refuse(identifier, refusal)
            return
        is_related = call is not None and call.group is not None
        if call is None or call.group is None:
            calls = {id(each): each for each in self._running_calls.values() if each.group is not None}
            call = next(iter(calls.values())) if len(calls) == 1 else self._unrelated_call
        if identifier in call.questions:
            text = f"the server repeated its request {method} before the answer; the repetition was ignored"
            self.remark(Remark(RemarkKind.QUESTION, text))
            return
        if len(call.questions) == MAX_QUESTIONS:
            if is_related:
                raise InvalidAnswer("it asks too many questions at once")
            self._refuse(identifier, ProtocolError(ErrorCode.INVALID_REQUEST, "Too many questions at once"))
            return
        answering = self._respond_to(identifier, method, params, call)
        if call.group is not None:
            task = call.group.create_task(answering)
        else:
            task = asyncio.get_running_loop().create_task(answer_alone(answering))
        questions = call.questions
        questions[identifier] = task
        task.add_done_callback(lambda ended: questions.pop(identifier, None))

    async def _respond_to(self, identifier: Id, method: str, params: JSONObject, call: ClientCall) -> None:
        try:
            answer: JSONObject = {"result": await self._answer(method, params, call)}
        except ProtocolError as refusal:
            answer = {"error": codec.error_object(refusal)}
        await self._respond(identifier, answer)

    async def _respond(self, identifier: Id | float | None, answer: JSONObject) -> None:
        await self._transport.send({"jsonrpc": "2.0", "id": identifier, **answer})

    # notifications

    def _on_notification(self, method: str, params: JSONObject, call: ClientCall | None) -> None:
        for listener in self.listeners:
            listener(method, params)
        match method:
            case "notifications/cancelled":
                self._withdraw_question(params.get("requestId"))
            case "notifications/progress":
                self._on_progress(params)
            case "notifications/message":
                data = params.get("data")
                text = data if isinstance(data, str) else codec.encode(data).decode()
                self._report_log(f"{params.get('level')}: {text}", call)
            case "notifications/subscriptions/acknowledged":
                self._on_acknowledgement(params, call)
            case "notifications/elicitation/complete":
                self._report_log("the step in the browser is complete", call)

    def _withdraw_question(self, identifier: Any) -> None:
        """Stop answering a question that the server withdrew."""
        for call in (self._unrelated_call, *self._running_calls.values()):
            if is_id(identifier) and identifier in call.questions:
                call.questions[identifier].cancel()

    def _on_progress(self, params: JSONObject) -> None:
        token, progress, total = params.get("progressToken"), params.get("progress"), params.get("total")
        call = self._running_calls.get(token) if isinstance(token, int) else None
        if call is None or call.observer is None or not isinstance(progress, int | float):
            return
        known_total = total if isinstance(total, int | float) else None
        call.observer.progressed(progress, known_total, str(params.get("message") or ""))

    def _on_acknowledgement(self, params: JSONObject, call: ClientCall | None) -> None:
        """Report the acknowledgement of a subscription, found by its stream or its id."""
        meta = params.get("_meta")
        identifier = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        if call is None and isinstance(identifier, int):
            call = self._running_calls.get(identifier)
        if call is not None and call.observer is not None:
            call.observer.acknowledged()

    def _report_log(self, text: str, call: ClientCall | None) -> None:
        """Report a message to its call, or to all running calls if the message does not identify one."""
        calls = {id(each): each for each in ([call] if call is not None else self._running_calls.values())}
        for each in calls.values():
            if each.observer is not None:
                each.observer.on_log(text)

    async def _listen(self) -> None:
        """Receive notifications. If the server has lost the session, continue in a new one."""
        await self.open()
        pace = RenewalPace()
        try:
            while True:
                agreement = self._agreement
                try:
                    return await self._transport.listen(self._can_receive.set)
                except SessionGone as gone:
                    await pace.pause(gone, gone.has_received)
                    await self._replace_session(agreement)
        finally:
            self._can_receive.set()

    @contextmanager
    def _naming_target(self) -> Iterator[None]:
        """Add the server's address to errors."""
        try:
            yield
        except CallError as error:
            error.target = error.target or self.target
            raise
