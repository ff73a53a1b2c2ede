"""Records of finished calls, questions and background work, kept until they are sent.

Records contain no payload.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, NamedTuple

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.trace import CallSpan
from mcpdesk.server.calls.call_figures import OutcomeKind

OTHER = "_OTHER"
"""Replacement for an unknown method, so that callers cannot choose names. The conventions define it."""


class WorkKind(Enum):
    """Kind of work that continues after its request."""

    JOB = "job"
    """An asynchronous call of the gateway."""
    TASK = "task"
    """A call that became an MCP task."""
    PROGRAM = "program"
    """A program in the background."""


class CallRecord(Struct, gc=False, frozen=True):
    """A request that was answered or has ended. Times are Unix nanoseconds."""

    server: str
    method: str
    target: str
    """Name of the tool or prompt, or URI of the resource, or "" if the server does not offer it."""
    id: Id
    revision: str
    transport: str
    session: str
    """Id of the HTTP session of the request. Only its digest is sent."""
    span: CallSpan
    started: int
    """Time when the request arrived."""
    ended: int
    """Time when the request was answered or ended."""
    began: int = 0
    """Time when the handler began. 0 if the request has no handler."""
    handled: int = 0
    """Time when the handler ended. 0 if the request has no handler."""
    phases: Phases | None = None
    outcome: OutcomeKind = OutcomeKind.OK
    code: int = 0
    """JSON-RPC error code."""
    is_cut_off: bool = False
    """True if the request ended without an answer, because its caller cancelled it or disconnected."""
    status: int = 0
    """HTTP status, if an upstream server sent no readable answer."""
    is_outgoing: bool = False
    """True for a request of the desk to an upstream server, False for a request of a client."""

    @property
    def span_count(self) -> int:
        """Number of spans that are created from the record."""
        return (1 + (self.began > 0)) * self.span.is_sampled


class QuestionRecord(Struct, gc=False, frozen=True):
    """A finished question. Times are Unix nanoseconds."""

    server: str
    tool: str
    method: str
    span: CallSpan
    started: int
    ended: int
    outcome: str
    has_failed: bool
    span_count: ClassVar = 1


class WorkRecord(Struct, gc=False, frozen=True):
    """Work that outlived its request and has ended. Times are Unix nanoseconds."""

    server: str
    tool: str
    kind: WorkKind
    trace_id: int
    parent_id: int
    started: int
    ended: int
    outcome: str
    has_failed: bool
    span_count: ClassVar = 1


SpanRecord = CallRecord | QuestionRecord | WorkRecord


class Delivery(NamedTuple):
    """Result of sending a batch."""

    signal: str
    """Signal: `traces` or `metrics`."""
    span_count: int
    reason: str
    """Reason why the collector did not accept the batch, or "" if the batch was accepted."""
