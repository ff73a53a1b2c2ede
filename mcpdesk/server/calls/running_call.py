"""One request being answered: who asked, under which terms, and how it can be stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import Struct, field

from mcpdesk.auth.principal import INVALID, MISSING, OPEN, TOKEN_VARIABLE, Principal
from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, is_id
from mcpdesk.protocol.outlet import Outlet
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.server.calls.call_phases import Waits

if TYPE_CHECKING:
    from mcpdesk.jobs.feed import CallFeed
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.trace import CallSpan, Trace
    from mcpdesk.server.asks.client_requests import ClientRequests
    from mcpdesk.server.asks.question_wording import ClientQuestion
    from mcpdesk.server.dialects.gateway_translation import GatewayDialect

T = TypeVar("T")
RUNNING: ContextVar[tuple[int, Id] | None] = ContextVar("running", default=None)
"""Connection and id of the call that the running code answers, so that what it prints is known to be its."""
_OVER_HTTP = "tokens are sent over HTTP, and this call came"
PIPES = {
    "memory": f"{_OVER_HTTP} from within mcpdesk",
    "stdio": f"over stdio the environment of the client has it, as {TOKEN_VARIABLE}",
    "unix": f"{_OVER_HTTP} over a Unix socket",
}
"""Transports whose frames come without a request of HTTP -> how a token is given there."""


class Operation(Protocol):
    """What a call needs of the rounds it is answered in, or of the task it became."""

    on_task: Callable[[], None] | None
    """Makes a task of it when its handler says so; None: that cannot be, or it is one."""
    tag: dict[str, Any] | None
    """The metadata of every message about it, once it is a task."""

    @property
    def is_task(self) -> bool:
        """Whether its request was answered with a task."""

    def become_task(self) -> bool:
        """Go on as a task if that can be; says whether it is one now."""

    async def ask(self, asking: ClientQuestion[T], limit_s: float, key: str | None = None) -> T:
        """The client's answer, which comes with one of its next requests."""

    def say(self, message: str) -> None:
        """Pass on a message the handler reported."""

    def end(self, reason: str) -> None:
        """End the handler."""


LEFT = "its client left"
"""Reason with which a call ends whose client is no longer connected; its response says so."""


class Call(Struct, eq=False):
    """One request in flight. `stop` says why it was ended from outside; empty while nobody did.

    `headers` came with the request itself; `opening` with the connection of a pipe over HTTP.

    `principal` is who asks. Questions to the client go through
    `requests` in the handshake era, through `round` in the stateless one; without either it cannot be asked.
    `asks_person` counts its questions that wait at the desk. `feed` takes what it puts out meanwhile;
    None: nobody looks.
    """

    id: Id
    method: str
    params: dict[str, Any]
    terms: Terms
    outlet: Outlet
    transport: str = "memory"
    peer: str = ""
    headers: Mapping[str, str] | None = None
    started: float = field(default_factory=time.monotonic)
    began: float = 0.0
    handled: float = 0.0
    """When its handler began and when it was done, by the same clock."""
    waits: Waits | None = None
    """What it waited for; None: for nobody so far."""
    opening: Mapping[str, str] | None = None
    principal: Principal = OPEN
    requests: ClientRequests | None = None
    home: ClientRequests | None = None
    """Requests of its session, whether or not that may be asked; None without a session."""
    environment: Mapping[str, str] | None = None
    """Environment of its client's process; None if it is ours."""
    round: Operation | None = None
    connection: int = 0
    """That of its client, by its number in the record."""
    feed: CallFeed | None = None
    job: Job | None = None
    """What it goes on as, once it was answered."""
    deadline: float | None = None
    limit_s: float = 0.0
    pauses: int = 0
    asks_person: int = 0
    left_s: float = 0.0
    running: tuple[int, Id] | None = None
    """Its place while and after its handler ran; None before. The object identifies it in `left_code`."""
    stop: str = ""
    is_over: bool = False
    outcome: OutcomeKind = OutcomeKind.OK
    """How the call of a tool ended, once it did."""
    code: int = 0
    """Of the JSON-RPC error it was answered with; 0: of none."""
    span: CallSpan | None = None
    """Its place in a trace; None: nobody follows calls."""
    dialect: GatewayDialect | None = None
    """What its caller speaks; None: the standard."""
    wants_job: bool = False
    """Whether its caller wants an answer at once, and the call to go on as a job."""
    task: asyncio.Task[Any] | None = None
    progress: float = -inf
    """What was reported last: the next has to be more."""
    progress_token: Id | None = None
    _is_cancelled: bool = False

    @property
    def claims(self) -> Mapping[str, Any] | None:
        """Those of a verified token; None: there was none."""
        return self.principal.claims

    @property
    def owner(self) -> str:
        """Who owns what it leaves behind: its principal, else its session, else whoever knows the id."""
        if self.principal.identity:
            return self.principal.identity
        return "" if self.requests is None else self.requests.owner

    @property
    def session(self) -> str:
        """The session it belongs to; empty for a request without one."""
        return "" if self.home is None else self.home.owner

    @property
    def place(self) -> tuple[int, Id]:
        """Where it is found in the record: its connection and its id."""
        return self.connection, self.id

    @property
    def lasting_connection(self) -> int:
        """The connection that its client cannot leave without being gone; 0: it may come back by another."""
        return 0 if self.transport == "http" and self.requests is None else self.connection

    @property
    def is_desk(self) -> bool:
        """Whether the desk itself calls: no client is connected in memory, whatever it calls itself."""
        return self.transport == "memory" and self.peer == "desk"

    @property
    def has_failed(self) -> bool:
        """Whether it was answered with an error, or with a result that says that the tool failed."""
        return self.code != 0 or self.outcome not in (OutcomeKind.OK, OutcomeKind.CANCELLED)

    @property
    def trace(self) -> Trace:
        """What it passes on of its trace: that of its metadata, else of its HTTP request."""
        if self.span is not None:
            return self.span.trace
        from mcpdesk.protocol.trace import trace_of

        return trace_of(self.params.get("_meta"), self.headers)

    def check_token(self, is_required: bool, scopes: Collection[str] = ()) -> None:
        """Refuse a caller whose token is missing or does not allow what is needed.

        Raises: RemoteProtocolError (-32001, -32003); its data names the scopes.
        """
        if not is_required:
            return
        principal = self.principal
        needed = {"scope": " ".join(scopes)} if scopes else None
        if principal.claims is None:
            way = "" if self.is_desk else PIPES.get(self.transport)
            told = f"{MISSING}; {way}" if way else MISSING
            if principal.refused:
                told = f"{INVALID}; of the token in {TOKEN_VARIABLE}: {principal.refused}"
            raise RemoteProtocolError(ErrorCode.UNAUTHORIZED, told, needed)
        if principal.has_expired(time.time()):
            raise RemoteProtocolError(ErrorCode.UNAUTHORIZED, INVALID, needed)
        lacking = [scope for scope in scopes if scope not in principal.scopes]
        if lacking:
            reason = f"Forbidden: the token lacks the scope {' '.join(lacking)}"
            raise RemoteProtocolError(ErrorCode.FORBIDDEN, reason, needed)

    def end(self, reason: str) -> None:
        """Stop the work from outside; the first reason counts. Harmless once it is over."""
        if self.stop:
            return
        self.stop = reason
        if self.task is not None:
            self._is_cancelled = True
            self.task.cancel(reason)

    def go_on_after_end(self) -> None:
        """Go on after `end`, to answer: its reason no longer counts."""
        self.undo_cancellation()
        self.stop = ""

    def undo_cancellation(self) -> None:
        """Take the cancellation of `end` back, heeded or not: the task goes on with other calls."""
        if self._is_cancelled and self.task is not None:
            self._is_cancelled = False
            self.task.uncancel()


def progress_token(meta: Mapping[str, Any]) -> Id | None:
    """The one in a request's metadata, if it is one."""
    token = meta.get("progressToken")
    return token if is_id(token) else None
