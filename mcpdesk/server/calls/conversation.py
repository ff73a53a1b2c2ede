"""Conversation with one peer. It answers each message, and tracks the running calls.

A pipe has one conversation, and so has an HTTP session. For requests without a session, a TCP connection has
one conversation for each server, revision and caller. This module does not depend on the transport.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.auth.principal import INVALID_TOKEN, OPEN, Principal
from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec, stateless
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.handshake import Phase, Session, SessionState, log_level
from mcpdesk.protocol.jsonrpc import (
    ErrorCode,
    Id,
    JSONObject,
    MessageKind,
    classify,
    http_status,
    invalid,
    is_id,
    progress_token,
    readable_id,
)
from mcpdesk.protocol.methods import CALLS, METHODS, canonical, is_call
from mcpdesk.protocol.outlet import ACCEPTED, Answer, Outlet, Reply
from mcpdesk.protocol.phases import Phases
from mcpdesk.server.asks.client_requests import ClientRequests
from mcpdesk.server.calls.call_figures import Latency
from mcpdesk.server.calls.dispatch import Dispatcher
from mcpdesk.server.calls.running_call import CANCELLED_AT_DESK, CLIENT_LEFT, Call
from mcpdesk.server.calls.subscriptions import Subscriber, check_count, resource_not_found

if TYPE_CHECKING:
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.server.calls.dialect import Dialect


class Conversation:
    """State between one peer and one server.

    `push` sends messages that belong to no request, such as list changes. It is None if the channel does not
    allow such messages.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        dialect: Dialect | None = None,
        is_connected: Callable[[], bool] | None = None,
    ) -> None:
        """`dialect` is a dialect that the peer uses besides standard MCP, or None.

        `is_connected` returns True if this process must send change notifications to the client. If it is
        None, this process always sends them.
        """
        self.dispatcher = dispatcher
        self.session = Session()
        if dialect is not None:
            self.session.assume_revision(dialect.revision)
        self._dialect = dialect
        self.admission = stateless.Admission()
        self.transport = transport
        self.connection = 0
        """Number of the connection in the recorder, or 0 if the connection is not recorded."""
        self.peer = peer
        self.opening_headers: Mapping[str, str] | None = None
        """Headers of the HTTP request that opened a WebSocket or an event stream, or None on other
        channels.
        """
        self.environment: Mapping[str, str] | None = None
        """Environment of the peer's process without secrets, or None if the peer has the environment of this
        process.
        """
        self.principal: Principal = OPEN
        """Principal that opened the conversation. It is used for messages without a principal."""
        self.has_own_lists = False
        """True if lists contain only items that the caller may use, because later requests have no token."""
        self.calls = 0
        """Number of tool calls, resource reads and prompt requests, including rejected ones."""
        self.failures = 0
        """Number of calls that ended with a protocol error or a tool error."""
        self.errors = 0
        """Number of requests of any kind that were answered with a protocol error."""
        self.terms = self.session.terms
        """Revision and client data of the latest request."""
        self.latency: Latency | None = None
        """Latency of finished calls, or None before the first call has ended."""
        self.tools_listed: int | None = None
        """Fingerprint of the tool list that this client received last, or None."""
        self._push = push
        self._is_connected = is_connected
        self.on_terms: Callable[[Terms], None] | None = None
        """Function that is called when the name or the revision of the peer becomes known or changes."""
        self.announced_terms: Terms | None = None
        """Terms that were passed to `announce` last, or None before the first request."""
        self._is_closed = False
        self.in_flight: dict[Id, Call] = {}
        """Running calls by id, oldest first."""
        self._subscriber: Subscriber | None = None
        self._paths: dict[str, str] = {}
        """Paths of subscribed resources by URI. They are needed after a resource was removed."""
        self.requests = ClientRequests(push)
        self.accept_member: Callable[..., Answer] | None = None
        """Function that handles the members of a batch, or None to use `accept_message`."""

    @property
    def knows_tools(self) -> bool | None:
        """True if the tools have not changed since the client listed them, or None if the client never listed
        them.
        """
        if self.tools_listed is None:
            return None
        return self.tools_listed == self.dispatcher.offers.tools_fingerprint()

    @property
    def running(self) -> list[Call]:
        """Running calls, oldest first."""
        return list(self.in_flight.values())

    @property
    def questioned_calls(self) -> list[object]:
        """Calls that wait for answers of the client. A call with several questions occurs several times."""
        return self.requests.waiting_calls

    @property
    def may_batch(self) -> bool:
        """True if the revision of the session supports batches."""
        return self.session.is_open and self.session.terms.revision.has_batches

    def accept(self, frame: bytes, outlet: Outlet, headers: Mapping[str, str] | None = None) -> Answer:
        """Handle one frame. A frame that cannot be decoded is answered with an error."""
        try:
            message = codec.decode(frame)
        except ProtocolError as error:
            return self.error_reply(None, error, False)
        return self.accept_message(message, outlet, headers)

    def accept_message(
        self,
        message: Any,
        outlet: Outlet,
        headers: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """Handle one decoded message.

        `headers` are those of the HTTP request, or None on a pipe. `principal` is the sender, or None for the
        principal that opened the conversation.
        """
        principal = principal or self.principal
        if isinstance(message, list):
            return self._accept_batch(message, outlet, headers, principal)
        # Each HTTP request has its own token, which was checked when the request arrived.
        is_expired = headers is None and principal.expires is not None and principal.has_expired(time.time())
        try:
            kind = classify(message)
        except ProtocolError as error:
            if headers is None and _is_notification(message):
                return ACCEPTED
            return self.error_reply(readable_id(message), error, False)
        version = "" if headers is None else headers.get("mcp-protocol-version", "")
        if kind is MessageKind.REQUEST:
            is_stateless = stateless.is_stateless(message, version)
            watch, code = self.dispatcher.services.watch, 0
            began = 0.0 if watch is None else time.monotonic()
            try:
                if is_expired:
                    raise RemoteProtocolError(ErrorCode.UNAUTHORIZED, INVALID_TOKEN)
                answer = self._handle_request(message, is_stateless, outlet, headers, principal)
            except ProtocolError as error:
                answer, code = self.error_reply(message["id"], error, is_stateless), error.code
                if is_call(message):
                    self.calls += 1
                    self.failures += 1
            if watch is not None and isinstance(answer, tuple):
                server = self.dispatcher.server
                watch.answered(server, message, self.terms, self.transport, headers, began, code)
            return answer
        if kind is MessageKind.NOTIFICATION:
            if not is_expired:
                self._accept_notification(message, headers)
        elif stateless.is_stateless(message, version):
            return self.error_reply(None, invalid("a response is not allowed in the stateless era"), True)
        elif is_expired:
            self.requests.receive({"id": message["id"], "error": _EXPIRED_ERROR})
        else:
            self.requests.receive(message)
        return ACCEPTED

    @property
    def state(self) -> SessionState:
        """State of the session. Another process needs this state to continue the session."""
        return replace(self.session.state, mark=self.requests.mark)

    def restore(self, state: SessionState) -> None:
        """Continue a session that another process served.

        Raises: RemoteProtocolError if this program no longer supports such a session.
        """
        self.session.restore(state)
        self.requests.mark = state.mark
        if state.mark and (hosted := self.dispatcher.server.hosted) is not None:
            hosted.join(self.requests.owner)
        self.announce(self.session.terms)
        self._update_paths()
        if state.is_ready:
            self._subscribe_to_changes()

    def continue_session(self, mark: str) -> None:
        """Continue a client's session, which other processes may have served before.

        `mark` is the id of the session.
        """
        self.requests.session_mark = mark
        if (hosted := self.dispatcher.server.hosted) is not None:
            hosted.join(self.requests.owner, is_read=False)

    def catch_up(self, state: SessionState) -> None:
        """Apply the state that the client has set through another process."""
        self.session.catch_up(state)
        self._update_paths()
        if state.is_ready:
            self._subscribe_to_changes()

    def notify(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Notify the client of a change in another process, if the client subscribed to such changes."""
        if self._subscriber is not None:
            self._subscriber.notify(kind, facts)

    def close(self, reason: str = "connection closed") -> None:
        """Close the conversation: end its calls and subscriptions, and release the objects of its session."""
        self._push = self.on_terms = self.requests.push = None
        self._is_closed = True
        self.accept_member = None
        if self._dialect is not None:
            self._dialect.close()
        if self._subscriber is not None:
            self.dispatcher.services.subscriptions.remove(self._subscriber)
            self._subscriber = None  # breaks a reference cycle, so that memory is freed at once
        for call in self.running:
            call.end(reason)
        state = self.dispatcher.server.hosted
        if state is not None and self.requests.may_own:
            state.leave(self.requests.owner)
        if self.requests.may_own:
            jobs = self.dispatcher.services.jobs
            jobs.delete_jobs_of_owner(self.dispatcher.server.name, self.requests.owner, reason)

    def _handle_request(
        self,
        message: JSONObject,
        is_stateless: bool,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal,
    ) -> Answer:
        """Answer a request. Raises: ProtocolError if the request is rejected without running a handler."""
        identifier: Id = message["id"]
        dialect = self._dialect
        if dialect is not None and not is_stateless:
            server = self.dispatcher.server
            if status := dialect.status(message["method"], server.name, server.version):
                return _result(identifier, status)
            message = dialect.standard(message)
        params: JSONObject = message.get("params") or {}
        method: str = message["method"]
        if is_stateless:
            terms = self.admission.admit(method, params, headers)
        else:
            if method not in METHODS:
                method = canonical(method)
            if method in _HANDSHAKE_METHODS:
                return _HANDSHAKE_METHODS[method](self, identifier, params)
            if dialect is None and headers is None and not self.session.is_open:
                raise stateless.missing_metadata()
            terms = self.session.terms
        row = self.dispatcher.admit(method, params, terms.revision)
        if terms.unknown_level is not None:
            log_level(terms.unknown_level)
        if terms is not self.announced_terms:
            self.announce(terms)
        if not is_stateless and method in _SESSION_METHODS:
            return _SESSION_METHODS[method](self, identifier, params)
        if row.list_key or method == "server/discover":
            if row.list_key == "tools":
                self.tools_listed = self.dispatcher.offers.tools_fingerprint()
            began = time.monotonic()
            caller = principal if self.has_own_lists else None
            body = self.dispatcher.immediate(identifier, row, params, terms, caller)
            shaping_us = int((time.monotonic() - began) * 1e6)
            return (200, body, Phases(time.time(), shaping=shaping_us))
        if identifier in self.in_flight:
            raise invalid(f"a request with id {identifier!r} is already in flight")
        if len(self.in_flight) >= self.dispatcher.server.limits.in_flight:
            raise invalid(f"{len(self.in_flight)} requests are already in flight (max_in_flight)")
        call = Call(identifier, method, params, terms, outlet, self.transport, self.peer, headers)
        call.principal, call.connection = principal, self.connection
        call.opening_headers = self.opening_headers
        if type(meta := params.get("_meta")) is dict and "progressToken" in meta:
            call.progress_token = progress_token(meta)
        if self.session.phase is Phase.READY and not is_stateless:
            call.requests = self.requests
        if headers is None or (not is_stateless and self.session.is_open):
            call.session_requests, call.environment = self.requests, self.environment
        if dialect is not None:
            call.dialect = dialect
            call.wants_job = method == "tools/call" and dialect.wants_job(params)
        call.is_later_round = "inputResponses" in params or "requestState" in params
        self.calls += method in CALLS and not call.is_later_round
        self.in_flight[identifier] = call
        watch = self.dispatcher.services.watch
        return self._run(call) if watch is None else self._run_watched(call, watch)

    async def _run_watched(self, call: Call, watch: CallWatch) -> Reply:
        watch.begin(call)
        reply = ACCEPTED
        try:
            reply = await self._run(call)
            return reply
        finally:
            watch.end(self.dispatcher.server, call, reply)

    async def _run(self, call: Call) -> Reply:
        """Run a call, and return its response. Update the counts of the conversation at its end."""
        call.task = asyncio.current_task()
        try:
            if call.stop:
                return self._end_reply(call)
            frame = await self.dispatcher.run(call)
            if call.stop:
                return self._end_reply(call)
            if call.job is not None and call.dialect is not None:
                call.dialect.report(call.job, call.progress_token, call.outlet)
            return (200, frame, call.phases())
        except ProtocolError as error:
            call.code = error.code
            return self.error_reply(call.id, error, call.terms.revision.is_stateless, call.phases())
        except asyncio.CancelledError:
            if not call.stop:
                raise
            return self._end_reply(call)
        finally:
            self.in_flight.pop(call.id, None)
            call.is_over = True
            if call.method in CALLS:
                self.failures += call.has_failed
                if self.latency is None:
                    self.latency = Latency()
                waited_s = 0.0 if call.waits is None else call.waits.total_s()
                self.latency.add(time.monotonic() - call.started - waited_s)
            if call.stop:
                call.undo_cancellation()
            else:
                call.stop = "finished"
            if self.requests.pending_requests:
                self.requests.forget(call)
            call.task = None

    def _end_reply(self, call: Call) -> Reply:
        """Return the reply to a call that was ended, or `ACCEPTED` if its caller no longer waits for a
        reply.
        """
        if call.stop not in _END_MESSAGES:
            return ACCEPTED
        error = ProtocolError(ErrorCode.INTERNAL_ERROR, _END_MESSAGES[call.stop])
        call.code = error.code
        return self.error_reply(call.id, error, call.terms.revision.is_stateless, call.phases())

    def cancel_at_desk(self, id: Id, started: float) -> bool:
        """Cancel a running call, and answer it with an error. Return False if no such call runs."""
        call = self.in_flight.get(id)
        if call is None or call.stop or call.started != started:
            return False
        call.end(CANCELLED_AT_DESK)
        return True

    def _accept_notification(self, message: JSONObject, headers: Mapping[str, str] | None) -> None:
        method = canonical(message["method"])
        if method == "notifications/initialized":
            self.session.initialized()
            if self.session.is_open:
                self._subscribe_to_changes()
        elif method == "notifications/cancelled" and (headers is None or self.session.is_open):
            self._cancel(message.get("params") or {})

    def _cancel(self, params: JSONObject) -> None:
        identifier = params.get("requestId")
        if not is_id(identifier):
            return
        call = self.in_flight.get(identifier)
        if call is not None:
            reason = params.get("reason")
            call.end(f"cancelled by the caller{': ' + reason if isinstance(reason, str) else ''}")

    def _accept_batch(
        self, batch: list[Any], outlet: Outlet, headers: Mapping[str, str] | None, principal: Principal
    ) -> Answer:
        """Check a batch, and handle its messages."""
        if not (self.may_batch or self._may_batch_without_session(headers)):
            return self.error_reply(None, invalid("batches belong to revision 2025-03-26 only"), False)
        if not batch:
            return self.error_reply(None, invalid("an empty batch is not allowed"), False)
        max_messages = self.dispatcher.server.limits.in_flight
        if len(batch) > max_messages:
            allowed = f"at most {max_messages} are allowed (max_in_flight)"
            reason = f"a batch of {len(batch)} messages is too large; {allowed}"
            return self.error_reply(None, invalid(reason), False)
        return self._run_batch(batch, outlet, headers, principal)

    def _may_batch_without_session(self, headers: Mapping[str, str] | None) -> bool:
        """Return True if a batch came over HTTP without a session, in the revision that supports batches."""
        if headers is None or self.session.is_open:
            return False
        if stateless.is_stateless(None, headers.get("mcp-protocol-version", "")):
            return False
        return self.session.terms.revision.has_batches

    async def _run_batch(
        self, batch: list[Any], outlet: Outlet, headers: Mapping[str, str] | None, principal: Principal
    ) -> Reply:
        """Handle all members in their order. Asynchronous requests run concurrently."""
        if self._is_closed:
            return ACCEPTED
        answers = [self._accept_member(message, outlet, headers, principal) for message in batch]
        immediate_replies = [each for each in answers if isinstance(each, tuple)]
        later_replies = await asyncio.gather(*(each for each in answers if not isinstance(each, tuple)))
        bodies = [body for _, body, _ in (*immediate_replies, *later_replies) if body is not None]
        return (200, b"[%b]" % b",".join(bodies), None) if bodies else ACCEPTED

    def _accept_member(
        self, message: Any, outlet: Outlet, headers: Mapping[str, str] | None, principal: Principal
    ) -> Answer:
        if isinstance(message, list):
            return self.error_reply(None, invalid("a batch inside a batch is not allowed"), False)
        if isinstance(message, dict) and message.get("method") == "initialize":
            return self.error_reply(
                readable_id(message), invalid("initialize inside a batch is not allowed"), False
            )
        return (self.accept_member or self.accept_message)(message, outlet, headers, principal)

    def error_reply(
        self, identifier: Id | None, error: ProtocolError, is_stateless: bool, phases: Phases | None = None
    ) -> Reply:
        """Return the response for an error. `phases` is None if no handler ran."""
        self.errors += 1
        body = codec.error_response(identifier, error)
        return (http_status(error, is_stateless), body, phases or Phases(time.time()))

    def announce(self, terms: Terms) -> None:
        """Set the terms of the latest request. If they have changed, call `on_terms`."""
        self.terms = terms
        if terms is self.announced_terms:
            return
        previous, self.announced_terms = self.announced_terms, terms
        if previous is not None and previous.revision is terms.revision and previous.client == terms.client:
            return
        if terms.client and self.transport != "memory":
            # The peer of an in-memory channel is known. Other peers send their name.
            self.peer = terms.client
        if self.on_terms is not None:
            self.on_terms(terms)

    def _subscribe_to_changes(self) -> None:
        """Send change notifications to the client from now on, if the channel allows this."""
        if self._push is None or self._subscriber is not None:
            return
        server = self.dispatcher.server
        subscriber = self._subscriber = Subscriber(
            server.name,
            self._push,
            self.session.subscriptions,
            mode=server.mode,
            peer=lambda: self.peer,
            log_level=lambda: self.session.terms.log_level,
            is_connected=self._may_notify if self.has_own_lists else self._is_connected,
        )
        services = self.dispatcher.services
        services.subscriptions.add(subscriber)
        if services.on_session is not None and self.transport != "memory":
            services.on_session(subscriber)

    def _may_notify(self) -> bool:
        """Return True if this process may notify the peer of a pipe. If the server requires a token, the
        peer's token must be valid.
        """
        access, principal = self.dispatcher.server.access, self.principal
        has_valid_token = access.admits(principal) and not principal.has_expired(time.time())
        is_admitted = has_valid_token or not access.requires_token
        return is_admitted and (self._is_connected is None or self._is_connected())

    def _initialize(self, identifier: Id, params: JSONObject) -> Reply:
        revision = self.session.initialize(params)
        self.announce(self.session.terms)
        answer = codec.result_frame(identifier, self.dispatcher.offers.initialize_result(revision))
        if self._dialect is not None and self._dialect.answer_handshake(answer):
            return ACCEPTED
        return (200, answer, Phases(time.time()))

    def _ping(self, identifier: Id, params: JSONObject) -> Reply:
        return _result(identifier, {})

    def _set_level(self, identifier: Id, params: JSONObject) -> Reply:
        self.session.set_level(params["level"])
        return _result(identifier, {})

    def _subscribe(self, identifier: Id, params: JSONObject) -> Reply:
        from mcpdesk.server.offer.resource_lookup import find_resource

        server, subscribed_uris = self.dispatcher.server, self.session.subscriptions
        resource = find_resource(server, params["uri"])
        if resource is None:
            raise resource_not_found(params["uri"], self.session.terms.revision)
        check_count(len(subscribed_uris) + (resource.uri not in subscribed_uris), server.limits.subscriptions)
        subscribed_uris.add(resource.uri)
        self._update_paths()
        return _result(identifier, {})

    def _unsubscribe(self, identifier: Id, params: JSONObject) -> Reply:
        from mcpdesk.server.offer.resource_lookup import find_resource, uris_at

        uri, server = params["uri"], self.dispatcher.server
        resource = find_resource(server, uri)
        removed_uris = uris_at(uri, self._paths, server) if resource is None else {resource.uri}
        self.session.subscriptions.difference_update({uri, *removed_uris})
        return _result(identifier, {})

    def _update_paths(self) -> None:
        """Store the paths of the subscribed resources, and delete other paths."""
        resources, subscribed_uris = self.dispatcher.server.resources, self.session.subscriptions
        for uri in subscribed_uris - self._paths.keys():
            resource = resources.get(uri)
            self._paths[uri] = resource.path if resource is not None else ""
        for uri in self._paths.keys() - subscribed_uris:
            del self._paths[uri]


def _is_notification(message: object) -> bool:
    """Return True if an invalid message looks like a notification. On a pipe, notifications get no answer."""
    if not isinstance(message, dict) or "id" in message:
        return False
    return message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)


_END_MESSAGES = {
    CLIENT_LEFT: f"Not finished: {CLIENT_LEFT} before the question was answered",
    CANCELLED_AT_DESK: f"Not finished: {CANCELLED_AT_DESK}",
}
"""Error message by reason, for calls that were ended while the caller still waits for a response."""
_EXPIRED_ERROR: JSONObject = {"code": ErrorCode.UNAUTHORIZED.value, "message": INVALID_TOKEN}
"""Error that replaces the client's answer to a question if the client's token has expired."""


def _result(identifier: Id, body: JSONObject) -> Reply:
    return (200, codec.response(identifier, body), Phases(time.time()))


_SessionHandler = Callable[[Conversation, Id, JSONObject], Reply]

_HANDSHAKE_METHODS: dict[str, _SessionHandler] = {
    "initialize": Conversation._initialize,
    "ping": Conversation._ping,
}
"""Handlers of methods that are allowed before the handshake."""
_SESSION_METHODS: dict[str, _SessionHandler] = {
    "logging/setLevel": Conversation._set_level,
    "resources/subscribe": Conversation._subscribe,
    "resources/unsubscribe": Conversation._unsubscribe,
}
