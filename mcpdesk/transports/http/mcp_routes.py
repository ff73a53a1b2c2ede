"""Endpoints of the protocol: `/mcp/<name>` for Streamable HTTP.

They serve revisions with a handshake and stateless ones. Source: MCP basic/versioning, basic/transports of
2025-11-25, basic/transports/streamable-http.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp import web

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import AnswerRefused, ProtocolError, StorageError
from mcpdesk.protocol import codec
from mcpdesk.protocol.event_store import call_mark
from mcpdesk.protocol.headers import mismatch
from mcpdesk.protocol.jsonrpc import ErrorCode, invalid, readable_id
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.stateless import is_stateless, unsupported
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.http.callers import (
    CallerCheck,
    has_token_field,
    masked_data,
    masked_message,
    pop_token,
)
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.event_stream import PostOutlet, StreamKeepAlive
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_head import SESSION_HEADER, RequestHead, head_of, peer_of
from mcpdesk.transports.http.responses import (
    IS_RECORDED,
    JSON,
    JSON_HEADERS,
    RETRY_AFTER,
    STREAM,
    RequestRefused,
    content_type_error,
    json_answer,
    large_answer,
    plain_error,
    response_note,
    retry_later,
    rpc_error,
)
from mcpdesk.transports.http.session_streams import STREAM_NOT_STORED, stream_events
from mcpdesk.transports.http.sessions.http_sessions import HttpSession, HttpSessions
from mcpdesk.transports.http.sessions.session_outlet import SessionOutlet
from mcpdesk.transports.http.sessions.session_records import FOLDER, SessionRecords
from mcpdesk.transports.http.sessions.stored_sessions import StoredSessions

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import HostedDialogue
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.site import Endpoint, Site

Verb: TypeAlias = "Callable[[web.BaseRequest, Endpoint, Principal | None], Awaitable[web.StreamResponse]]"
"""Handler for a request of a caller. The caller is None if its token may be in the body."""
LAST_EVENT_HEADER = "Last-Event-ID"
LISTEN = "subscriptions/listen"
SESSION_METHODS = frozenset(
    {"logging/setLevel", "resources/subscribe", "resources/unsubscribe", "notifications/initialized"}
)
"""Methods that change a session. If other processes also serve the session, it is then written."""


class McpRoutes:
    """Protocol endpoints of all servers of a core."""

    def __init__(
        self, site: Site, find_other_processes: Callable[[HttpSessions], OtherProcesses | None]
    ) -> None:
        """`find_other_processes` returns the access to other processes of the same clients, or None."""
        self._site = site
        self._keep_alive = StreamKeepAlive()
        rules, folder = site.rules, site.state_dir
        self.sessions = HttpSessions(rules.session_ttl_s, rules.max_sessions, rules.resume_bytes)
        self.other_processes = find_other_processes(self.sessions)
        if self.other_processes is not None:
            self.sessions.store = self.other_processes
        elif folder is not None and site.shared is None:
            records = SessionRecords(folder / FOLDER, rules.session_ttl_s)
            self.sessions.store = StoredSessions(self.sessions, records, lambda: site.rules.api_key)

    async def post(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Answer one message or batch. Without `caller`, the token may be in the body."""
        head = head_of(request)
        if head.content_type != JSON:
            return content_type_error(head.content_type)
        accepted = head.accepted
        if not accepted.json and not accepted.stream:
            return plain_error(406, "Accept must allow application/json or text/event-stream")
        max_bytes = self._site.rules.max_body_bytes
        try:
            body = await read_body(request, max_bytes)
            message = codec.decode(body)
            recorded_body, token = body, None
            if has_token_field(message):
                recorded_body = masked_message(message)
                token, message = pop_token(message)
            if caller is None:
                caller = await CallerCheck(request, endpoint.access, self._site.rules).identify_by_body(token)
            dialogue, session = await self._dialogue(request, head, endpoint, message, caller)
            if self.other_processes is not None and isinstance(message, dict):
                forwarded = await self.other_processes.answer(request, session, message, body)
                if forwarded is not None:
                    return forwarded
        except RequestRefused as refused:
            return refused.answer
        except StorageError as error:
            return retry_later(error, readable_id(message))
        except ProtocolError as error:
            return await self._answer_undecodable(request, endpoint, body, error, caller)
        self._site.recorder.frame(dialogue.connection, Direction.IN, recorded_body, True, head.http_note)
        # Clients of SDK 1.x end their session after a 401 or 403. That helps only clients that can obtain
        # another token. For other clients, the status is 200 and only the message contains the error.
        hides_auth_status = session is not None and not endpoint.access.authorization_servers
        answer = await self._answer(request, head, dialogue, message, session, caller, hides_auth_status)
        if (
            answer.status in (401, 403)
            and isinstance(answer, web.Response)
            and isinstance(answer.body, bytes)
        ):
            check = CallerCheck(request, endpoint.access, self._site.rules)
            answer.headers.update(check.challenge_for(answer.body))
        return answer

    async def get(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Open the standing stream of a session. Without a session, describe this endpoint."""
        refusal = _sessionless_refusal(request, endpoint)
        if refusal is not None:
            return refusal
        if "text/event-stream" not in request.headers.get("Accept", ""):
            return _post_only(endpoint)
        try:
            session = await self._session(request, request.headers[SESSION_HEADER], endpoint, caller or OPEN)
            if session is None:
                return plain_error(404, "No such session: initialize again")
            last_event_id = request.headers.get(LAST_EVENT_HEADER)
            if self.other_processes is not None:
                return await self.other_processes.stream(request, session, caller or OPEN, last_event_id)
        except StorageError as error:
            return retry_later(error)
        # Events of earlier processes are lost. A client that asks for them gets a new stream.
        if not last_event_id or session.events.is_earlier(last_event_id):
            if session.standing.is_connected:
                return plain_error(409, "This session already has a GET stream")
            return await stream_events(request, session, caller or OPEN, session.standing, None)
        stream = session.events.find(last_event_id)
        if stream is None:
            return plain_error(400, STREAM_NOT_STORED)
        return await stream_events(request, session, caller or OPEN, *stream)

    async def delete(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """End a session."""
        refusal = _sessionless_refusal(request, endpoint)
        if refusal is not None:
            return refusal
        try:
            session = await self._session(request, head_of(request).session or "", endpoint, caller or OPEN)
            if session is None:
                return plain_error(404, "No such session")
            await self.sessions.store.end(session)
        except StorageError as error:
            return retry_later(error)
        self.sessions.end(session, "the client ended the session")
        return web.Response(status=204)

    async def _dialogue(
        self, request: web.BaseRequest, head: RequestHead, endpoint: Endpoint, message: Any, caller: Principal
    ) -> tuple[HostedDialogue, HttpSession | None]:
        """Return the dialogue of a message, and its session. `initialize` creates a session."""
        version = head.version
        if is_stateless(message, version):
            if head.repeated:
                reason = f"{head.repeated} is given more than once"
                raise RequestRefused(rpc_error(400, mismatch(reason), readable_id(message)))
            return self._sessionless_dialogue(request, endpoint, "", caller), None
        if version and version not in BY_NAME:
            raise RequestRefused(rpc_error(400, unsupported(version[:80]), readable_id(message)))
        if isinstance(message, dict) and message.get("method") == "initialize":
            if not self.sessions.has_room():
                raise RequestRefused(
                    rpc_error(503, invalid("too many sessions (max_sessions)"), readable_id(message))
                )
            session = self.sessions.begin(endpoint, peer_of(request), caller)
            return session.dialogue, session
        if head.session is None:
            return self._sessionless_dialogue(request, endpoint, version, caller), None
        known_session = await self._session(request, head.session, endpoint, caller)
        if known_session is None:
            error = ProtocolError(ErrorCode.INVALID_REQUEST, "No such session: initialize again")
            raise RequestRefused(rpc_error(404, error, readable_id(message)))
        return known_session.dialogue, known_session

    async def _session(
        self, request: web.BaseRequest, identifier: str, endpoint: Endpoint, caller: Principal
    ) -> HttpSession | None:
        """Return the caller's session with that id, or None.

        It may come from another process, or from before a restart. Raises: StorageError while the storage is
        unavailable.
        """
        session = self.sessions.get(identifier, endpoint.key, caller)
        if session is not None:
            return session
        return await self.sessions.store.join(identifier, endpoint, peer_of(request), caller)

    def _sessionless_dialogue(
        self, request: web.BaseRequest, endpoint: Endpoint, revision: str, caller: Principal
    ) -> HostedDialogue:
        connection = connection_of(request)
        dialogue = connection.dialogues.get((endpoint.key, revision, caller.identity))
        if dialogue is None:
            dialogue = connection.dialogue(endpoint, revision, lambda: peer_of(request), caller)
        if dialogue is None:
            raise RequestRefused(rpc_error(400, unsupported(revision)))
        return dialogue

    async def _answer(
        self,
        request: web.BaseRequest,
        head: RequestHead,
        dialogue: HostedDialogue,
        message: Any,
        session: HttpSession | None,
        caller: Principal,
        hides_auth_status: bool,
    ) -> web.StreamResponse:
        """Handle a message, and send its answer as JSON or as an event stream."""
        recorder, accepted, connection = self._site.recorder, head.accepted, dialogue.connection
        is_listening = isinstance(message, dict) and message.get("method") == LISTEN
        may_stream = accepted.stream and (self._site.rules.streaming or is_listening or not accepted.json)
        if is_listening and not may_stream:
            return plain_error(406, f"{LISTEN} is answered by a stream: Accept must allow text/event-stream")
        if session is not None and session.is_added:
            mark = None if session.shared is None else call_mark(readable_id(message))
            outlet: PostOutlet = SessionOutlet(
                request,
                may_stream,
                recorder.frame_batch,
                connection,
                session.events,
                session.connection_lost,
                mark,
            )
        else:
            outlet = PostOutlet(request, may_stream, recorder.frame_batch, connection)
        outlet.is_prompt = may_stream and (head.lists_event_stream or head.wants_stream)
        answer = dialogue.accept_message(message, outlet, head.headers, caller)
        if isinstance(answer, tuple):
            status, body, phases = answer
        else:
            self._keep_alive.watch(outlet)
            if session is not None:
                session.waiting.add(outlet)
                if outlet.stream is None:
                    connection_of(request).on_lost = session.connection_lost
            try:
                status, body, phases = await answer
            finally:
                self._keep_alive.forget(outlet)
                if session is not None:
                    session.answered(outlet)
                    if outlet.stream is None:
                        connection_of(request).on_lost = None
        if hides_auth_status and status in (401, 403):
            status = 200
        if session is not None and (not session.is_added or session.shared is not None):
            try:
                await self._save_session(session, outlet, message)
            except StorageError as error:
                return retry_later(error, readable_id(message))
        if self.other_processes is not None and self.other_processes.is_cut_off(body):
            outlet.headers |= RETRY_AFTER
        if body is None:
            return web.Response(status=status) if outlet.stream is None else await outlet.conclude(None)
        if len(body) >= LARGE_ANSWER_BYTES:
            try:
                await outlet.reserve_all(len(body))
            except AnswerRefused as refused:
                status, body = 503, codec.error_response(readable_id(message), refused)
        if status == 503:
            outlet.headers |= RETRY_AFTER
        prefers_json = accepted.json and not head.wants_stream
        if outlet.stream is None and (prefers_json or status != 200):
            headers = outlet.headers or None
            http_note = None if status == 200 and headers is None else response_note(status, headers=headers)
            recorder.frame(connection, Direction.OUT, body, True, http_note, phases=phases)
            if len(body) >= LARGE_ANSWER_BYTES:
                all_headers = JSON_HEADERS | outlet.headers | head.page_headers
                return await large_answer(request, status, body, all_headers)
            reply = json_answer(status, body, headers)
            if status != 200:
                reply[IS_RECORDED] = True
            return reply
        outlet.flush()
        http_note = response_note(200, STREAM, outlet.headers)
        recorder.frame(connection, Direction.OUT, body, True, http_note, phases=phases)
        return await outlet.conclude(body)

    async def _save_session(self, session: HttpSession, outlet: PostOutlet, message: Any) -> None:
        """Keep a session that has begun, or write what the client changed. Raises: StorageError."""
        if session.is_added:
            if isinstance(message, dict) and message.get("method") in SESSION_METHODS:
                await self.sessions.store.write(session)
        elif session.dialogue.is_open:
            try:
                await self.sessions.store.publish(session)
            except StorageError:
                session.close("the session could not be shared")
                raise
            self.sessions.add(session)
            outlet.headers[SESSION_HEADER] = session.id
        else:
            session.close("the handshake failed")

    async def _answer_undecodable(
        self,
        request: web.BaseRequest,
        endpoint: Endpoint,
        body: bytes,
        error: ProtocolError,
        caller: Principal | None,
    ) -> web.Response:
        """Record a body that cannot be decoded, and return the error."""
        if caller is None:
            try:
                caller = await CallerCheck(request, endpoint.access, self._site.rules).identify_by_body(None)
            except RequestRefused as refused:
                return refused.answer
        dialogue = self._sessionless_dialogue(request, endpoint, "", caller)
        record = self._site.recorder.frame
        record(
            dialogue.connection,
            Direction.IN,
            masked_data(body),
            False,
            head_of(request).http_note,
        )
        refusal = codec.error_response(None, error)
        record(dialogue.connection, Direction.OUT, refusal, True, response_note(400))
        return json_answer(400, refusal)


def _sessionless_refusal(request: web.BaseRequest, endpoint: Endpoint) -> web.Response | None:
    """Return the error for a GET or DELETE that names no session, or None if the request names a session."""
    head = head_of(request)
    revision = BY_NAME.get(head.version)
    if head.version and revision is None:
        return rpc_error(400, unsupported(head.version[:80]))
    if not head.session or (revision is not None and revision.is_stateless):
        return _post_only(endpoint)
    return None


def _post_only(endpoint: Endpoint) -> web.Response:
    return plain_error(
        405,
        "This endpoint speaks MCP: JSON-RPC 2.0 messages over POST",
        {"Allow": "POST"},
        server=endpoint.name,
        example={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    )
