"""Records of calls, and metrics, for OpenTelemetry.

On the core's loop, only small records are created. The thread of `OtlpSender` converts them to spans and
sends them. This module does not import OpenTelemetry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from random import getrandbits
from time import monotonic, time, time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.features.telemetry.otlp_sender import OtlpSender
from mcpdesk.features.telemetry.passed_traffic import PassedTraffic
from mcpdesk.features.telemetry.span_records import OTHER, CallRecord, QuestionRecord, WorkKind, WorkRecord
from mcpdesk.hosting.host_part import HostPart
from mcpdesk.jobs.programs import Program, ProgramState
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS, canonical
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.protocol.trace import CallSpan, read_trace, trace_of
from mcpdesk.server.calls.call_observer import CallWatch
from mcpdesk.server.calls.call_watch import AskedQuestion
from mcpdesk.server.offer.server import Server
from mcpdesk.transports.metric import MetricFamily, Sample

if TYPE_CHECKING:
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.jobs.job import Job
    from mcpdesk.protocol.client_questions import Terms
    from mcpdesk.protocol.outlet import Reply
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.settings import Settings
    from mcpdesk.upstream.upstream import Upstream

SAMPLED, UNSAMPLED = "01", "00"
"""Flags of a `traceparent`."""
RANDOM_VALUES = 1 << 56
"""Number of values of the random part of a trace id. Sampling uses this part (W3C Trace Context, level 2)."""


class Telemetry(HostPart, CallWatch):
    """Sends records of calls to a collector."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        upstreams: Mapping[str, Upstream],
        core_figures: Callable[[], list[MetricFamily]],
    ) -> None:
        """Start to send records and metrics. `core_figures` returns the metrics of the core."""
        self._upstreams = upstreams
        self._core_figures = core_figures
        self._sampling_threshold = RANDOM_VALUES * settings.otel_traces_percent // 100
        self._interval_s = settings.otel_metrics_ms / 1000
        self._sender = OtlpSender(settings.otel_endpoint, settings.otel_headers, journal)
        self.call_watch = self
        self.exchange_watch = PassedTraffic(
            self._span, self._sender.put, self.question_ended, self._passed_target
        )
        self._metrics_task = asyncio.create_task(self._send_metrics_regularly())

    async def stop(self) -> None:
        """Send the remaining records, within a time limit."""
        self._metrics_task.cancel()
        self._sender.send_metrics(self._all_figures())
        await asyncio.to_thread(self._sender.close)

    @property
    def figures(self) -> list[MetricFamily]:
        """Metrics of the sender, for `/metrics`."""
        sender = self._sender
        return [
            MetricFamily(
                "otel_spans_total", "counter", "Spans accepted by a collector.", [Sample(sender.sent)]
            ),
            MetricFamily(
                "otel_lost_total", "counter", "Spans that no collector accepted.", [Sample(sender.lost)]
            ),
        ]

    def begin(self, call: Call) -> None:
        """Create the span of a call in its caller's trace, or in a new one."""
        call.span = self._span(call.params.get("_meta"), call.headers)

    def end(self, server: Server, call: Call, reply: Reply) -> None:
        """Record a finished call."""
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
        """Record a request that was answered without a handler."""
        params = message.get("params")
        members = params if isinstance(params, dict) else {}
        name = canonical(message["method"])
        method = name if name in METHODS else OTHER
        now = monotonic()
        offset = time() - now
        self._sender.put(
            CallRecord(
                server.name,
                method,
                _target(server, method, members),
                message["id"],
                terms.revision.name,
                transport,
                (headers or {}).get("mcp-session-id", ""),
                self._span(members.get("_meta"), headers),
                _unix(began, offset),
                _unix(now, offset),
                code=code,
            )
        )

    def question_ended(self, question: AskedQuestion) -> None:
        """Record a finished question."""
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
        """Record a job or task when it ends."""
        span = call.span
        if span is None or not span.is_sampled:
            return

        def on_change() -> None:
            if job.is_over:
                stop_listening()
                kind = WorkKind.TASK if job.feed is None else WorkKind.JOB
                has_failed = job.status is TaskStatus.FAILED
                started = int(job.created * 1e9)
                self._sender.put(
                    WorkRecord(
                        server.name,
                        job.tool,
                        kind,
                        span.trace_id,
                        span.span_id,
                        started,
                        time_ns(),
                        job.status,
                        has_failed,
                    )
                )

        stop_listening = job.listen(on_change)

    def program_over(self, server: str, program: Program) -> None:
        """Record a background program that has ended."""
        trace = read_trace({"traceparent": program.traceparent})
        if trace.is_sampled:
            self._sender.put(
                WorkRecord(
                    server,
                    "",
                    WorkKind.PROGRAM,
                    int(trace.id, 16),
                    int(trace.parent, 16),
                    int(program.started * 1e9),
                    time_ns(),
                    program.state,
                    program.state is ProgramState.FAILED,
                )
            )

    def _span(self, meta: object, headers: Mapping[str, str] | None) -> CallSpan:
        """Create the span of a call.

        Metadata of the message has priority over HTTP headers, because one HTTP request may have several
        messages, each with its own metadata. Source: OpenTelemetry semantic conventions for MCP, context
        propagation.
        """
        caller = trace_of(meta, headers)
        span_id = getrandbits(64) | 1
        handler_id = getrandbits(64) | 1
        if not caller.traceparent:
            trace_id = getrandbits(128) | 1
            is_sampled = trace_id % RANDOM_VALUES < self._sampling_threshold
            flags = SAMPLED if is_sampled else UNSAMPLED
            trace = replace(caller, traceparent=f"00-{trace_id:032x}-{handler_id:016x}-{flags}")
            return CallSpan(trace, trace_id, span_id, handler_id, 0, is_sampled)
        flags = SAMPLED if caller.is_sampled else UNSAMPLED
        trace = replace(caller, traceparent=f"00-{caller.id}-{handler_id:016x}-{flags}")
        linked_trace = None
        if headers is not None and "traceparent" in headers:
            http_trace = read_trace(headers)
            linked_trace = http_trace if http_trace.traceparent not in ("", caller.traceparent) else None
        return CallSpan(
            trace,
            int(caller.id, 16),
            span_id,
            handler_id,
            int(caller.parent, 16),
            caller.is_sampled,
            linked_trace,
        )

    def _passed_target(self, server: str, method: str, params: Mapping[str, object]) -> str:
        """Return the name or URI in a request to an upstream server, if the server listed it."""
        upstream = self._upstreams.get(server)
        member, kind = _TARGET_MEMBERS.get(method, ("", ""))
        name = params.get(member)
        is_listed = isinstance(name, str) and upstream is not None and upstream.offers(kind, name)
        return str(name) if is_listed else ""

    async def _send_metrics_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self._sender.send_metrics(self._all_figures())

    def _all_figures(self) -> list[MetricFamily]:
        return [*self._core_figures(), *self.figures]


_TARGET_MEMBERS = {
    "tools/call": ("name", "tool"),
    "prompts/get": ("name", "prompt"),
    "resources/read": ("uri", "resource"),
}
"""Parameter with the name or URI, and kind of item, by method."""


def _unix(monotonic_s: float, offset_s: float) -> int:
    """Convert a monotonic time to Unix nanoseconds. `offset_s` is the Unix time minus the monotonic time."""
    return int((monotonic_s + offset_s) * 1e9)


def _target(server: Server, method: str, params: Mapping[str, object]) -> str:
    """Return the name or URI in a request if it is offered. Names invented by callers are not sent."""
    offered: dict[str, tuple[str, Container[object]]] = {
        "tools/call": ("name", server.tools.items),
        "prompts/get": ("name", server.prompts.items),
        "resources/read": ("uri", server.resources.items),
    }
    member, offered_names = offered.get(method, ("", ()))
    name = params.get(member)
    return name if isinstance(name, str) and name in offered_names else ""
