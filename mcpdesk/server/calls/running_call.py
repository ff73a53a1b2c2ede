"""One running request: its caller, its revision, its client data, and how to end it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct, field

from mcpdesk.auth.principal import INVALID_TOKEN, MISSING_TOKEN, OPEN, TOKEN_VARIABLE, Principal
from mcpdesk.errors import ClientError, RemoteProtocolError
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.jsonrpc import ErrorCode, Id
from mcpdesk.protocol.outlet import Outlet
from mcpdesk.protocol.phases import Phases
from mcpdesk.server.calls.call_figures import OutcomeKind

if TYPE_CHECKING:
    from mcpdesk.jobs.feed import CallFeed
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.trace import CallSpan, Trace
    from mcpdesk.server.asks.client_requests import ClientRequests
    from mcpdesk.server.asks.question_wording import ClientQuestion
    from mcpdesk.server.calls.dialect import Dialect

T = TypeVar("T")
RUNNING_CALL: ContextVar[tuple[int, Id] | None] = ContextVar("running", default=None)
"""Connection and id of the call that runs the current code. Printed output is assigned to this call."""
_OVER_HTTP = "tokens are sent over HTTP, but this call came"
NO_TOKEN_REASONS = {
    "memory": f"{_OVER_HTTP} from within mcpdesk",
    "stdio": f"over stdio, set {TOKEN_VARIABLE} in the environment of the client",
    "unix": f"{_OVER_HTTP} over a Unix socket",
}
"""Advice on how to pass a token, by transport, for transports without HTTP requests."""


class ClientRounds(Protocol):
    """Members of an operation that its call uses. The operation has one or more rounds, or is a task."""

    on_task: Callable[[], None] | None
    """Function that turns the operation into a task, or None if the operation cannot become one."""
    message_meta: dict[str, Any] | None
    """`_meta` of every message after the operation has become a task, or None."""

    @property
    def is_task(self) -> bool:
        """True if the request was answered with a task."""

    def become_task(self) -> bool:
        """Continue as a task if possible. Return True if the operation is now a task."""

    async def ask(self, question: ClientQuestion[T], limit_s: float, key: str | None = None) -> T:
        """Return the answer of the client, which arrives with a later request."""

    def report(self, message: str) -> None:
        """Pass on a message of the handler."""

    def end(self, reason: str) -> None:
        """End the handler."""


CLIENT_LEFT = "its client left"
"""Reason for ending the calls of a client that disconnected. The response contains it."""
CANCELLED_AT_DESK = "cancelled by the person at the desk"
"""Reason for ending a call that a person cancelled. The response contains it."""


class WaitTimes(Struct):
    """Seconds for which a call waited. If it waits for a client and a person at the same time, only the
    person counts.
    """

    client_s: float = 0.0
    person_s: float = 0.0
    clients: int = 0
    """Number of questions that the client has not answered."""
    persons: int = 0
    """Number of questions that a person has not answered."""
    since: float = 0.0
    """Monotonic time up to which the seconds are counted."""

    def change(self, by: int, *, is_client: bool) -> None:
        """Record that a question was asked (`by` is 1) or answered (-1)."""
        self.count()
        if is_client:
            self.clients += by
        else:
            self.persons += by

    def count(self) -> None:
        """Count the seconds up to now."""
        now = monotonic()
        if self.persons:
            self.person_s += now - self.since
        elif self.clients:
            self.client_s += now - self.since
        self.since = now

    def total_s(self) -> float:
        """Return the seconds of all waits up to now."""
        self.count()
        return self.client_s + self.person_s

    def restart(self) -> None:
        """Reset the seconds for another request of the same operation."""
        self.count()
        self.client_s = self.person_s = 0.0


class Call(Struct, eq=False):
    """One running request.

    Questions to the client use `requests` in revisions with a handshake, and `round` in stateless revisions.
    Without either, the client cannot be asked.
    """

    id: Id
    method: str
    params: dict[str, Any]
    terms: Terms
    outlet: Outlet
    transport: str = "memory"
    peer: str = ""
    headers: Mapping[str, str] | None = None
    """Headers of the HTTP request, or None on a pipe."""
    started: float = field(default_factory=time.monotonic)
    """Monotonic time when the request arrived."""
    began: float = 0.0
    """Monotonic time when the handler began, or 0 before that."""
    handled: float = 0.0
    """Monotonic time when the handler ended, or 0 before that."""
    waits: WaitTimes | None = None
    """Time for which the call waited for answers, or None if the call has not waited."""
    opening_headers: Mapping[str, str] | None = None
    """Headers of the HTTP request that opened a pipe, such as a WebSocket, or None for other pipes."""
    principal: Principal = OPEN
    """Principal of the caller."""
    requests: ClientRequests | None = None
    session_requests: ClientRequests | None = None
    """Client requests of the call's session, or None without a session. Set even if the client cannot be
    asked.
    """
    environment: Mapping[str, str] | None = None
    """Environment of the client's process, or None if the client has the environment of this process."""
    round: ClientRounds | None = None
    is_later_round: bool = False
    """True if the request continues an earlier request, with answers to its questions or with its state."""
    connection: int = 0
    """Number of the client's connection in the recorder."""
    feed: CallFeed | None = None
    """Receiver of the output while the call runs, or None if no caller reads this output."""
    job: Job | None = None
    """Job as which the call continues after its response, or None."""
    deadline: float | None = None
    """Monotonic time when the call times out, or None while its clock is stopped or its handler has not
    started.
    """
    limit_s: float = 0.0
    """Time limit of the handler in seconds."""
    pauses: int = 0
    """Number of reasons why the clock of the call is stopped."""
    asks_person: int = 0
    """Number of questions that wait at the desk."""
    remaining_s: float = 0.0
    """Seconds that remain until the deadline, while the clock is stopped."""
    running: tuple[int, Id] | None = None
    """Value of `capture_key` after the handler has started, or None before that. `running_code` identifies
    calls by this object.
    """
    stop: str = ""
    """Reason why the call was ended from outside, `finished` after its own end, or "" while it runs."""
    is_over: bool = False
    """True if the call was answered or ended."""
    outcome: OutcomeKind = OutcomeKind.OK
    """Outcome of a tool call that has ended."""
    code: int = 0
    """Code of the JSON-RPC error in the call's response, or 0."""
    span: CallSpan | None = None
    """Span in a trace, or None if calls are not traced."""
    dialect: Dialect | None = None
    """Dialect of the caller, or None for standard MCP."""
    wants_job: bool = False
    """True if the caller asked for an immediate response and a job."""
    task: asyncio.Task[Any] | None = None
    """Task that runs the call, or None before and after."""
    progress: float = -inf
    """Last progress that was reported. The next value must be larger."""
    progress_token: Id | None = None
    _is_cancelled: bool = False
    """True if `end` cancelled the task, and the cancellation was not undone."""

    @property
    def claims(self) -> Mapping[str, Any] | None:
        """Claims of a verified token, or None."""
        return self.principal.claims

    @property
    def owner(self) -> str:
        """Owner of objects that the call creates: its principal or session, or "" if any caller that knows
        the id of an object may use it.
        """
        if self.principal.identity:
            return self.principal.identity
        return "" if self.requests is None else self.requests.owner

    @property
    def session(self) -> str:
        """Session of the request, or "" if the request has no session."""
        return "" if self.session_requests is None else self.session_requests.owner

    @property
    def capture_key(self) -> tuple[int, Id]:
        """Connection and id, which identify the call in the capture."""
        return self.connection, self.id

    @property
    def lasting_connection(self) -> int:
        """Connection whose end means that the client has left, or 0 if the client may use several
        connections.
        """
        return 0 if self.transport == "http" and self.requests is None else self.connection

    @property
    def is_desk(self) -> bool:
        """True if the desk itself is the caller.

        Only the desk connects in memory, so no client can pretend to be the desk.
        """
        return self.transport == "memory" and self.peer == "desk"

    @property
    def has_failed(self) -> bool:
        """True if the call ended with a protocol error or a tool error."""
        return self.code != 0 or self.outcome not in (OutcomeKind.OK, OutcomeKind.CANCELLED)

    @property
    def trace(self) -> Trace:
        """Trace context to pass on. It comes from the metadata or the HTTP headers of the request."""
        if self.span is not None:
            return self.span.trace
        from mcpdesk.protocol.trace import trace_of

        return trace_of(self.params.get("_meta"), self.headers)

    async def ask_client(self, question: ClientQuestion[T], limit_s: float) -> T:
        """Send a question on the stream of the call, and return the answer. For revisions with a handshake.

        Raises: ClientError if the client cannot be asked, refuses, or does not answer in time.
        """
        if self.stop:
            raise ClientError("The call has ended, so its client cannot be asked")
        assert self.requests is not None
        return await self.requests.ask(self, lambda: self.outlet, question, limit_s)

    def phases(self) -> Phases:
        """Return the times of the phases of the call. Call this when the response is ready."""
        now, waits = monotonic(), self.waits
        handled = self.handled or now
        began = self.began or handled
        shaping = int((now - handled) * 1e6)
        if waits is None:
            return Phases(time.time(), int((handled - began) * 1e6), 0, 0, shaping)
        waits.count()
        client_s, person_s = waits.client_s, waits.person_s
        handler_s = max(0.0, handled - began - client_s - person_s)
        return Phases(time.time(), int(handler_s * 1e6), int(client_s * 1e6), int(person_s * 1e6), shaping)

    def check_token(self, is_required: bool, scopes: Collection[str] = ()) -> None:
        """Reject a caller without a token, or whose token lacks a scope.

        Raises: RemoteProtocolError (-32001, -32003); the data of the error lists the scopes.
        """
        if not is_required:
            return
        principal = self.principal
        error_data = {"scope": " ".join(scopes)} if scopes else None
        if principal.claims is None:
            hint = "" if self.is_desk else NO_TOKEN_REASONS.get(self.transport)
            text = f"{MISSING_TOKEN}; {hint}" if hint else MISSING_TOKEN
            if principal.refused:
                text = f"{INVALID_TOKEN}; of the token in {TOKEN_VARIABLE}: {principal.refused}"
            raise RemoteProtocolError(ErrorCode.UNAUTHORIZED, text, error_data)
        if principal.has_expired(time.time()):
            raise RemoteProtocolError(ErrorCode.UNAUTHORIZED, INVALID_TOKEN, error_data)
        missing_scopes = [scope for scope in scopes if scope not in principal.scopes]
        if missing_scopes:
            reason = f"Forbidden: the token lacks the scope {' '.join(missing_scopes)}"
            raise RemoteProtocolError(ErrorCode.FORBIDDEN, reason, error_data)

    def end(self, reason: str) -> None:
        """End the call from outside. Only the first reason is kept. No effect after the call has ended."""
        if self.stop:
            return
        self.stop = reason
        if self.task is not None:
            self._is_cancelled = True
            self.task.cancel(reason)

    def continue_after_end(self) -> None:
        """Clear the reason of `end` and continue, in order to send a response."""
        self.undo_cancellation()
        self.stop = ""

    def undo_cancellation(self) -> None:
        """Undo the cancellation by `end`, because the task continues with other calls."""
        if self._is_cancelled and self.task is not None:
            self._is_cancelled = False
            self.task.uncancel()
