"""What is kept of something that is over until it is sent: small values without anything of a payload."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, NamedTuple

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.phases import Phases
from mcpdesk.protocol.trace import CallSpan
from mcpdesk.server.calls.call_figures import OutcomeKind

OTHER = "_OTHER"
"""Stands for a method that is none, as the conventions have it: what callers send never names anything."""


class WorkKind(Enum):
    """Kinds of what goes on after the request that began it."""

    JOB = "job"
    """An asynchronous call of the gateway."""
    TASK = "task"
    """A call that became a task of the protocol."""
    PROGRAM = "program"
    """A program in the background."""


class CallRecord(Struct, gc=False, frozen=True):
    """A request that was answered or ended. Times are Unix nanoseconds."""

    server: str
    method: str
    target: str
    """The name of the tool or prompt, or the URI of the resource; empty for one that is not offered."""
    id: Id
    revision: str
    transport: str
    session: str
    """The id of its HTTP session: sent as a digest alone."""
    span: CallSpan
    started: int
    ended: int
    began: int = 0
    """When its handler began; 0: none did."""
    handled: int = 0
    phases: Phases | None = None
    outcome: OutcomeKind = OutcomeKind.OK
    code: int = 0
    """Of a JSON-RPC error."""
    is_cut_off: bool = False
    """Whether it ended without an answer: its caller cancelled it, or left."""
    status: int = 0
    """Of HTTP, where a server that is not ours answered with that alone."""
    is_outgoing: bool = False
    """Whether the desk asked a server that is not ours; else a client asked."""

    @property
    def spans(self) -> int:
        """How many spans are made of it."""
        return (1 + (self.began > 0)) * self.span.is_sampled


class QuestionRecord(Struct, gc=False, frozen=True):
    """A question that is over. Times are Unix nanoseconds."""

    server: str
    tool: str
    method: str
    span: CallSpan
    started: int
    ended: int
    outcome: str
    has_failed: bool
    spans: ClassVar = 1


class WorkRecord(Struct, gc=False, frozen=True):
    """Work that outlived its request, and is over. Times are Unix nanoseconds."""

    server: str
    tool: str
    kind: WorkKind
    trace_id: int
    parent_id: int
    started: int
    ended: int
    outcome: str
    has_failed: bool
    spans: ClassVar = 1


SpanRecord = CallRecord | QuestionRecord | WorkRecord


class Delivery(NamedTuple):
    """What became of a batch."""

    signal: str
    """`traces` or `metrics`."""
    spans: int
    reason: str
    """Why the collector did not take it; empty: it did."""
