"""Follows calls and counts for OpenTelemetry: on the core's loop, where only small values are made.

A thread of `OtlpSender` makes spans of them and sends them. Nothing here imports OpenTelemetry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping
from random import getrandbits
from time import monotonic, time, time_ns
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from mcpdesk.hosting.figures import counted
from mcpdesk.hosting.telemetry.otlp_sender import OtlpSender
from mcpdesk.hosting.telemetry.passed_traffic import PassedTraffic
from mcpdesk.hosting.telemetry.span_records import OTHER, CallRecord, QuestionRecord, WorkKind, WorkRecord
from mcpdesk.jobs.programs import Program, ProgramState
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS, canonical
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.protocol.trace import CallSpan, read_trace, trace_of
from mcpdesk.server.calls.call_watch import AskedQuestion
from mcpdesk.server.offer.server import Server
from mcpdesk.transports.figure import Figure, Sample

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.client_questions import Terms
    from mcpdesk.protocol.outlet import Reply
    from mcpdesk.recorder.capture.recording import Recording
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.calls.services import Services
    from mcpdesk.settings import Settings
    from mcpdesk.upstream.upstream import Upstream

SAMPLED, UNSAMPLED = "01", "00"
SHARES = 1 << 56
"""The random part of a trace id, of which a share is recorded (W3C Trace Context, level 2)."""


class CountedCore(Protocol):
    """What is needed of a core."""

    settings: Settings
    journal: Journal
    recording: Recording
    services: Services
    upstreams: dict[str, Upstream]

    @property
    def uptime_s(self) -> float:
        """Seconds since it started."""

    def endpoints(self) -> list[HostedEndpoint]:
        """All servers."""


class Telemetry:
    """A `CallWatch` that sends what it sees."""

    def __init__(self, core: CountedCore) -> None:
        """Begin to send what is seen, and what the core counts."""
        settings = core.settings
        self._core = core
        self._sampled_below = SHARES * settings.otel_traces_percent // 100
        self._interval_s = settings.otel_metrics_ms / 1000
        self._sender = OtlpSender(settings.otel_endpoint, settings.otel_headers, core.journal)
        self.passed = PassedTraffic(self._span, self._sender.put, self.asked, self._passed_target)
        """Follows what passes to servers that are not ours."""
        self._measuring = asyncio.create_task(self._measure())

    async def close(self) -> None:
        """Send what is left, as far as the collector takes it within a moment."""
        self._measuring.cancel()
        self._sender.measure(self._counted())
        await asyncio.to_thread(self._sender.close)

    @property
    def figures(self) -> list[Figure]:
        """What became of it, for `/metrics`."""
        sender = self._sender
        return [
            Figure("otel_spans_total", "counter", "Spans a collector took.", [Sample(sender.sent)]),
            Figure("otel_lost_total", "counter", "Spans no collector took.", [Sample(sender.lost)]),
        ]

    def begin(self, call: Call) -> None:
        """Give a call its place in the trace of its caller, or in a new one."""
        call.span = self._span(call.params.get("_meta"), call.headers)

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """Keep a call that is over."""
        assert call.span is not None
        now, phases = monotonic(), reply[2]
        offset = (time() if phases is None else phases.ready) - now
        self._sender.put(
            CallRecord(
                server.name,
                call.method,
                _target(server, call.method, call.params),
                call.id,
                call.terms.revision.name,
                call.transport,
                (call.headers or {}).get("mcp-session-id", ""),
                call.span,
                _unix(call.started, offset),
                _unix(now, offset),
                _unix(max(call.began, call.started), offset) if call.began else 0,
                _unix(call.handled or now, offset),
                phases,
                call.outcome,
                call.code,
                reply[1] is None,
            )
        )

    def answered(
        self,
        server: Server,
        message: JSONObject,
        terms: Terms,
        transport: str,
        headers: Mapping[str, str] | None,
        began: float,
        code: int,
    ) -> None:
        """Keep a request of which nothing ran."""
        params = message.get("params")
        given = params if isinstance(params, dict) else {}
        named = canonical(message["method"])
        method = named if named in METHODS else OTHER
        now = monotonic()
        offset = time() - now
        self._sender.put(
            CallRecord(
                server.name,
                method,
                _target(server, method, given),
                message["id"],
                terms.revision.name,
                transport,
                (headers or {}).get("mcp-session-id", ""),
                self._span(given.get("_meta"), headers),
                _unix(began, offset),
                _unix(now, offset),
                code=code,
            )
        )

    def asked(self, question: AskedQuestion) -> None:
        """Keep a question that is over."""
        if question.span is not None and question.span.is_sampled:
            offset = time() - monotonic()
            self._sender.put(
                QuestionRecord(
                    question.server,
                    question.tool,
                    question.method,
                    question.span,
                    _unix(question.began, offset),
                    _unix(question.ended, offset),
                    question.outcome,
                    question.has_failed,
                )
            )

    def follow(self, server: Server, call: Call, job: Job) -> None:
        """Keep a job or a task once it is over."""
        span = call.span
        if span is None or not span.is_sampled:
            return

        def changed() -> None:
            if job.is_over:
                forget()
                kind = WorkKind.TASK if job.feed is None else WorkKind.JOB
                has_failed = job.status is TaskStatus.FAILED
                began, ended = int(job.created * 1e9), time_ns()
                self._sender.put(
                    WorkRecord(
                        server.name,
                        job.tool,
                        kind,
                        span.trace_id,
                        span.span_id,
                        began,
                        ended,
                        job.status,
                        has_failed,
                    )
                )

        forget = job.listen(changed)

    def program_over(self, server: str, program: Program) -> None:
        """Keep a program in the background that has ended."""
        trace = read_trace({"traceparent": program.traceparent})
        if trace.is_sampled:
            trace_id, parent_id, state = int(trace.id, 16), int(trace.parent, 16), program.state
            has_failed, began = state is ProgramState.FAILED, int(program.started * 1e9)
            self._sender.put(
                WorkRecord(
                    server, "", WorkKind.PROGRAM, trace_id, parent_id, began, time_ns(), state, has_failed
                )
            )

    def _span(self, meta: object, headers: Mapping[str, str] | None) -> CallSpan:
        """The metadata of the message counts before the HTTP request, which may carry several.

        Source: OpenTelemetry semantic conventions for MCP, context propagation.
        """
        caller = trace_of(meta, headers)
        span_id, handler_id = getrandbits(64) | 1, getrandbits(64) | 1
        if not caller.traceparent:
            trace_id = getrandbits(128) | 1
            is_sampled = trace_id % SHARES < self._sampled_below
            flags = SAMPLED if is_sampled else UNSAMPLED
            trace = replace(caller, traceparent=f"00-{trace_id:032x}-{handler_id:016x}-{flags}")
            return CallSpan(trace, trace_id, span_id, handler_id, 0, is_sampled)
        flags = SAMPLED if caller.is_sampled else UNSAMPLED
        trace = replace(caller, traceparent=f"00-{caller.id}-{handler_id:016x}-{flags}")
        linked = None
        if headers is not None and "traceparent" in headers:
            around = read_trace(headers)
            linked = around if around.traceparent not in ("", caller.traceparent) else None
        return CallSpan(
            trace, int(caller.id, 16), span_id, handler_id, int(caller.parent, 16), caller.is_sampled, linked
        )

    def _passed_target(self, server: str, method: str, params: Mapping[str, object]) -> str:
        """What a request to a server that is not ours is about, if that is among what it listed."""
        upstream, (member, kind) = self._core.upstreams.get(server), _PASSED.get(method, ("", ""))
        name = params.get(member)
        is_listed = isinstance(name, str) and upstream is not None and upstream.offers(kind, name)
        return str(name) if is_listed else ""

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self._sender.measure(self._counted())

    def _counted(self) -> list[Figure]:
        core = self._core
        return [*counted(core.recording, core.services, core.endpoints(), core.uptime_s), *self.figures]


_PASSED = {
    "tools/call": ("name", "tool"),
    "prompts/get": ("name", "prompt"),
    "resources/read": ("uri", "resource"),
}
"""Method -> the parameter that says what it is about, and which kind of offer that is."""


def _unix(moment: float, offset: float) -> int:
    return int((moment + offset) * 1e9)


def _target(server: Server, method: str, params: Mapping[str, object]) -> str:
    """What a request is about, if that is offered: a name that only a caller knows is told to nobody."""
    offered: dict[str, tuple[str, Container[object]]] = {
        "tools/call": ("name", server.tools.items),
        "prompts/get": ("name", server.prompts.items),
        "resources/read": ("uri", server.resources.items),
    }
    member, known = offered.get(method, ("", ()))
    name = params.get(member)
    return name if isinstance(name, str) and name in known else ""
