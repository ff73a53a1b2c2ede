"""Requests of clients that another replica must answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import ProtocolError, StorageError, TransportError
from mcpdesk.features.replicas.group.forwarding import ReplicaSilent, SocketRejected
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.features.replicas.http.request_forwarding import (
    RESPONSE_TIMEOUT_S,
    forward_request,
    forwarded_headers,
    holder_of_call,
    holder_of_job,
    may_be_forwarded,
    request_state,
    task_of,
)
from mcpdesk.features.replicas.http.shared_copies import SharedCopies
from mcpdesk.protocol import codec
from mcpdesk.protocol.event_store import (
    BusPosition,
    EventPosition,
    marked_call,
    parse_event_id,
    position_of,
)
from mcpdesk.protocol.jsonrpc import ErrorCode, readable_id
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.job_routes import opened_socket, send_texts
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.responses import RequestRefused, plain_error, retry_later
from mcpdesk.transports.http.session_streams import STREAM_NOT_STORED, Continuation, stream_events
from mcpdesk.transports.http.sessions.http_sessions import STREAMS_PER_PROCESS, HttpSession, HttpSessions
from mcpdesk.transports.http.sessions.session_records import hash_id
from mcpdesk.transports.http.site import Site

REPLICA_LOST = "the machine that ran this call stopped before it answered; it may or may not have run"
INTERNAL_ERROR_CODE = b'"code":%d' % ErrorCode.INTERNAL_ERROR


class OtherReplicas(SharedCopies):
    """Forwards requests of one listener to the replica that must answer them."""

    def __init__(self, site: Site, sessions: HttpSessions, replicas: ReplicaGroup) -> None:
        super().__init__(sessions, replicas, lambda: site.rules.api_key)
        self._site = site

    async def answer(
        self, request: web.BaseRequest, session: HttpSession | None, message: dict[str, Any], body: bytes
    ) -> web.StreamResponse | None:
        """Forward a message to the replica with the program, task or round that the message names.

        Return the response, or None if this replica must answer. Raises: StorageError.
        """
        replicas = self._replicas
        method = message.get("method")
        if method is None:
            return await self._forward_response(request, session, message, body)
        if "id" not in message:
            if session is not None and may_be_forwarded(request):
                self.pass_on(session, message)
            return None
        task = task_of(message)
        if task and not self._site.jobs.has(task):
            holder, moved_response = await holder_of_job(request, replicas, task)
            if moved_response is not None:
                return moved_response
        elif may_be_forwarded(request):
            holder = await holder_of_call(message, replicas)
        else:
            return None
        if holder in ("", replicas.id):
            return None
        try:
            return await forward_request(request, replicas, holder, body)
        except ReplicaSilent as error:
            # A suspended call may continue on that replica, so it must not start here as well. A request
            # about a task can be answered from the record of the task.
            return None if task else retry_later(error, readable_id(message))
        except TransportError:  # the replica has just ended
            next_holder = "" if task else await replicas.round_holder(request_state(message))
            if next_holder in ("", replicas.id, holder):
                return None
        try:
            return await forward_request(request, replicas, next_holder, body)
        except TransportError as error:
            return retry_later(ReplicaSilent(str(error)), readable_id(message))

    async def _forward_response(
        self, request: web.BaseRequest, session: HttpSession | None, message: dict[str, Any], body: bytes
    ) -> web.StreamResponse | None:
        """Forward a client's response to the replica that sent the request to the client.

        Return the HTTP response, or None if this replica must handle the client's response. Raises:
        StorageError.
        """
        replicas = self._replicas
        if session is None or session.shared is None or not may_be_forwarded(request):
            return None
        number = str(message.get("id")).rpartition("-")[2]
        if not number.isdecimal() or len(number) >= 12:
            return None  # not the number of a request of any replica
        block = int(number) // STREAMS_PER_PROCESS
        if block == session.block:
            return None
        holder = await replicas.sessions.holder(session.shared.id, block)
        if holder in ("", replicas.id):
            return None
        try:
            return await forward_request(request, replicas, holder, body, RESPONSE_TIMEOUT_S)
        except ReplicaSilent as error:
            return retry_later(error)
        except TransportError:
            return plain_error(404, "No request waits for this answer: the machine that asked has stopped")

    async def stream(
        self, request: web.BaseRequest, session: HttpSession, caller: Principal, last_event_id: str | None
    ) -> web.StreamResponse:
        """Send a stream of a shared session to a client that resumes or opens it.

        The stream belongs to a call on this or another replica, or it is the standing stream (for messages
        that belong to no request). `last_event_id` is the `Last-Event-ID` of the client, or None. Raises:
        StorageError.
        """
        local = session.events.find(last_event_id) if last_event_id else None
        if local is not None and local[0] is not session.standing:
            return await stream_events(request, session, caller, *local)
        remote_position = parse_event_id(last_event_id) if local is None and last_event_id else None
        if remote_position is None:
            after = None if local is None else local[1]
            events = [
                data for number, data in session.standing.events if after is not None and number > after
            ]
            since = position_of(events[-1]) if events else parse_event_id(last_event_id or "")
            continuation = self._continuation(session, None if since is None else since.bus_position)
            return await stream_events(request, session, caller, session.standing, after, continuation)
        if remote_position.call is not None:
            return await self._send_call_stream(
                request, session, caller, remote_position, remote_position.call
            )
        return await self._send_standing_stream(request, session, caller, remote_position)

    async def _send_call_stream(
        self,
        request: web.BaseRequest,
        session: HttpSession,
        caller: Principal,
        position: EventPosition,
        mark: str,
    ) -> web.StreamResponse:
        """Send the stream of a call that another replica runs or has run.

        That replica writes the events when its client disconnects, or when this replica asks for them. `mark`
        identifies the call in the event ids. Raises: StorageError.
        """
        replicas, identifier = self._replicas, hash_id(session.id)
        holder = await replicas.sessions.holder(identifier, position.stream // STREAMS_PER_PROCESS)
        if holder == replicas.id:
            return plain_error(400, STREAM_NOT_STORED)
        lost_response = codec.error_response(
            marked_call(mark), ProtocolError(ErrorCode.INTERNAL_ERROR, REPLICA_LOST)
        )
        # If the engine lost its data, the holder is unknown until it registers again.
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RESPONSE_TIMEOUT_S

        def is_held() -> bool:
            return replicas.is_alive(holder) or loop.time() < deadline

        facts = {"holder": holder, "stream": position.stream, "after": position.number}
        request_events = partial(replicas.sessions.publish, "wanted", identifier, **facts)
        stream = replicas.streams.open(
            identifier,
            position,
            is_held,
            lost_response,
            request_events,
            sends_priming_event=session.events.sends_priming_event,
        )
        return await stream_events(request, session, caller, stream, position.number)

    async def _send_standing_stream(
        self,
        request: web.BaseRequest,
        session: HttpSession,
        caller: Principal,
        position: EventPosition,
    ) -> web.StreamResponse:
        """Send the standing stream of a session.

        If another replica has the stream, that replica's stream is forwarded. Otherwise the stream continues
        here, after the events that were written. Raises: StorageError.
        """
        replicas, identifier = self._replicas, hash_id(session.id)
        holder = await replicas.sessions.holder(identifier, position.stream // STREAMS_PER_PROCESS)
        if holder not in ("", replicas.id) and may_be_forwarded(request):
            try:
                return await forward_request(request, replicas, holder, within_s=RESPONSE_TIMEOUT_S)
            except ReplicaSilent as error:
                return retry_later(error)
            except TransportError:
                pass  # the replica has ended
        events = await replicas.streams.events_after(identifier, position)
        since = position_of(events[-1]) if events else position
        continuation = self._continuation(session, None if since is None else since.bus_position, events)
        return await stream_events(request, session, caller, session.standing, None, continuation)

    def _continuation(
        self, session: HttpSession, since: BusPosition | None, events: Collection[bytes] = ()
    ) -> Continuation:
        """Return a continuation of a session's standing stream on this replica.

        The client first receives `events`. Then its position is `since`, or None if that is unknown. The
        stream ends at once if this replica is about to stop, or if the missed events cannot be read. The
        client then reconnects.
        """
        session.events.bus_position = lambda: since

        async def catch_up() -> bool:
            return not session.events.is_leaving and await self.catch_up_on_stream(session, since)

        return Continuation(events, catch_up, lambda: self.note_position(session))

    async def post(self, request: web.BaseRequest, owner: str, max_bytes: int) -> web.StreamResponse | None:
        """Forward a message to the replica `owner`, which has the stream.

        Return the response, or None if no other replica has the stream.
        """
        if owner in ("", self.mark) or not may_be_forwarded(request):
            return None
        try:
            body = await read_body(request, max_bytes)
            return await forward_request(request, self._replicas, owner, body)
        except RequestRefused as refused:
            return refused.answer
        except StorageError as error:
            return retry_later(error)
        except TransportError:
            return None

    async def job(
        self, request: web.BaseRequest, identifier: str, callers: Sequence[Principal], *, is_socket: bool
    ) -> web.StreamResponse | None:
        """Forward a request about a job to the replica that has the job.

        Return the response, or None if no other replica has the job. Raises: StorageError.
        """
        holder, moved_response = await holder_of_job(request, self._replicas, identifier)
        if moved_response is not None or not holder:
            return moved_response
        try:
            if is_socket:
                first_to_expire = min(callers, key=lambda each: each.expires or float("inf"))
                return await _relay_socket(request, self._replicas, holder, first_to_expire)
            return await forward_request(request, self._replicas, holder)
        except TransportError:
            return None  # the replica has just ended

    def is_cut_off(self, body: bytes | None) -> bool:
        """Return True if a response body may be an internal error that an outage of the engine caused."""
        return bool(self._replicas.away) and body is not None and INTERNAL_ERROR_CODE in body


async def _relay_socket(
    request: web.BaseRequest,
    replicas: ReplicaGroup,
    replica: str,
    caller: Principal,
    *,
    may_move: bool = True,
) -> web.StreamResponse:
    """Forward the WebSocket of another replica to the client.

    If that replica names another one with the job and `may_move`, forward the WebSocket of the other one.
    Raises: TransportError if the WebSocket cannot be opened.
    """
    headers = {
        name: value for name, value in forwarded_headers(request).items() if not name.startswith("Sec-")
    }
    response: web.StreamResponse | None = None
    try:
        async with replicas.socket_of(replica, request.raw_path, headers) as texts:
            response = await opened_socket(request)
            return await send_texts(request, response, texts, caller)
    except SocketRejected as refused:
        if may_move and replicas.is_alive(refused.new_holder):
            return await _relay_socket(request, replicas, refused.new_holder, caller, may_move=False)
        return plain_error(refused.status, "The machine that has the job refused the WebSocket")
    except TransportError:
        if response is None:
            raise
        connection_of(request).abort()  # a normal close would look like the end of the job
        return response
