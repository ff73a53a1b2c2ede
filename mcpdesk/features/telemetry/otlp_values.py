"""Finished records and metrics as OpenTelemetry values, and the client of the collector.

This is the only module that imports OpenTelemetry. The sender's thread loads it. Names follow the semantic
conventions for MCP (semantic-conventions-genai, docs/gen-ai/mcp.md); our own names begin with `mcpdesk.`. The
values contain no arguments, results or messages, and no names that were invented by a caller.
"""

from __future__ import annotations

import logging
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from math import inf
from threading import get_ident
from time import time_ns
from typing import Any
from urllib.parse import unquote

from msgspec import Struct
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)
from opentelemetry.trace.span import TraceState

from mcpdesk.features.telemetry.span_records import (
    CallRecord,
    Delivery,
    QuestionRecord,
    SpanRecord,
    WorkRecord,
)
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.trace import Trace
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.transports.metric import MetricFamily, Sample
from mcpdesk.version import __version__

Attributes = dict[str, Any]
TIMEOUT_S = 3.0
"""Maximum number of seconds for sending one batch to the collector, including retries."""
MAX_REASON_LENGTH = 200
UNKNOWN_REASON = "no reason given"
MAX_ID_LENGTH = 64
METRIC_PREFIX = "mcpdesk."
UNITS = (("_seconds", "s"), ("_bytes", "By"))
"""Units by suffix of a metric's name."""
SERVER_DURATION, CLIENT_DURATION = "mcp.server.operation.duration", "mcp.client.operation.duration"
"""Names of the histograms for requests of clients, and for requests of the desk to upstream servers."""
BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Bounds that the conventions recommend for durations, in seconds."""
TRANSPORTS: dict[str, Attributes] = {
    "http": {"network.transport": "tcp", "network.protocol.name": "http"},
    "sse": {"network.transport": "tcp", "network.protocol.name": "http"},
    "websocket": {"network.transport": "tcp", "network.protocol.name": "websocket"},
    "ws": {"network.transport": "tcp", "network.protocol.name": "websocket"},
    "stdio": {"network.transport": "pipe"},
    "unix": {"network.transport": "unix"},
    "memory": {"network.transport": "inproc"},
}
"""Attributes by transport."""
TARGETS = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
}
"""Attribute with the name or URI in a request, by method."""
DESK_QUESTIONS = {"question", "approval"}
"""Kinds of questions that the person at the desk answers. The client answers all other kinds."""
REASON_PATTERNS = (
    (r"\[Errno -?\d+\] ([^'\")]+)", "{}"),
    (r"code: (\d+), reason: (.+)", "{} {}"),
    (r"due to timeout", f"no answer within {TIMEOUT_S:g} s"),
    (r"[A-Za-z]+\('([^']+)'\)\)? encountered while", "{}"),
    (r"Transient error (.+) encountered while", "{}"),
)
"""Patterns for log messages of the exporters, each with a shorter form of the message."""


class Collector:
    """Sends batches to one OTLP endpoint. All methods except `give_up` are used on one thread."""

    def __init__(self, endpoint: str, headers: str) -> None:
        base = endpoint.rstrip("/")
        header_pairs = read_headers(headers)
        self._resource = process_resource()
        self._spans = OTLPSpanExporter(f"{base}/v1/traces", headers=header_pairs, timeout=TIMEOUT_S)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", headers=header_pairs, timeout=TIMEOUT_S)
        self._factory = SpanFactory(self._resource)
        self._durations = Durations()
        self._started_ns = time_ns()
        self._failure_log = _FailureLog()
        self._is_closed = False
        for exporter in (self._spans, self._metrics):
            logging.getLogger(type(exporter).__module__).addFilter(self._failure_log)

    def send_spans(self, records: Sequence[SpanRecord]) -> Delivery:
        """Send finished records."""
        for record in records:
            if isinstance(record, CallRecord):
                self._durations.count(record)
        spans = self._factory.spans(records)
        if not spans:
            return Delivery("traces", 0, "")
        self._failure_log.reset()
        result = self._spans.export(spans)
        is_accepted = result is SpanExportResult.SUCCESS
        reason = "" if is_accepted else self._failure_log.first_reason or UNKNOWN_REASON
        return Delivery("traces", len(spans), reason)

    def send_figures(self, figures: Sequence[MetricFamily]) -> Delivery:
        """Send metrics."""
        now = time_ns()
        metrics = [
            each for figure in figures if (each := metric_of(figure, self._started_ns, now)) is not None
        ]
        scope = InstrumentationScope("mcpdesk", __version__)
        scope_metrics = ScopeMetrics(scope, [*metrics, *self._durations.metrics(self._started_ns, now)], "")
        data = MetricsData([ResourceMetrics(self._resource, [scope_metrics], "")])
        self._failure_log.reset()
        result = self._metrics.export(data)
        is_accepted = result is MetricExportResult.SUCCESS
        reason = "" if is_accepted else self._failure_log.first_reason or UNKNOWN_REASON
        return Delivery("metrics", 0, reason)

    def give_up(self) -> None:
        """Stop retrying the current batch. May be called on another thread."""
        self._is_closed = True
        for exporter in (self._spans, self._metrics):
            exporter.shutdown()

    def close(self) -> None:
        """Stop sending."""
        if not self._is_closed:
            self.give_up()
        for exporter in (self._spans, self._metrics):
            logging.getLogger(type(exporter).__module__).removeFilter(self._failure_log)


class _FailureLog(logging.Filter):
    """Captures errors that the exporters only log, and removes these lines from the log."""

    def __init__(self) -> None:
        super().__init__()
        self.first_reason = ""
        """First reason since `reset` was called, or ""."""
        self._thread = get_ident()

    def reset(self) -> None:
        """Discard the stored reason, before a batch is sent."""
        self.first_reason = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Store the reason in a log record of this thread, and return False to remove the record.

        Return True for a record of another thread, because hosted code may use OpenTelemetry itself.
        """
        if record.thread != self._thread:
            return True
        self.first_reason = self.first_reason or reason_of(record.getMessage())
        return False


def reason_of(text: str) -> str:
    """Return the reason why a batch was not sent, from an exporter's log message."""
    for pattern, reason in REASON_PATTERNS:
        if match := re.search(pattern, text):
            return reason.format(*match.groups())[:MAX_REASON_LENGTH]
    return text[:MAX_REASON_LENGTH]


def read_headers(text: str) -> dict[str, str]:
    """Parse `NAME=VALUE,NAME=VALUE`, the format of the standard variable."""
    pairs = (each.strip().partition("=") for each in text.split(",") if each.strip())
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


def process_resource() -> Resource:
    """Return the attributes of this process, with `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`."""
    pairs = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    names = {pair.partition("=")[0].strip() for pair in pairs}
    attributes = {"service.version": __version__}
    if "service.name" not in names and not os.environ.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = "mcpdesk"
    return Resource.create(attributes)


class _Ids(IdGenerator):
    """Gives a span the id that was generated when the call began.

    This id may already have been sent to other programs.
    """

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _FinishedSpans(SpanProcessor):
    """Collects finished spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class SpanFactory:
    """Creates the spans of records."""

    def __init__(self, resource: Resource) -> None:
        self._ids = _Ids()
        self._finished = _FinishedSpans()
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids)
        provider.add_span_processor(self._finished)
        self._tracer: Tracer = provider.get_tracer("mcpdesk", __version__)
        self._span_ids = iter(_random_span_ids())

    def spans(self, records: Sequence[SpanRecord]) -> list[ReadableSpan]:
        """Return the spans of records whose traces are sampled. A call has a second span for its handler."""
        for record in records:
            if isinstance(record, CallRecord):
                if record.span.is_sampled:
                    self._call(record)
            elif isinstance(record, QuestionRecord):
                self._question(record)
            else:
                self._work(record)
        spans, self._finished.spans = self._finished.spans, []
        return spans

    def _call(self, record: CallRecord) -> None:
        span = record.span
        name = f"{record.method} {record.target}" if _has_target_in_name(record) else record.method
        attributes = call_attributes(record)
        if (error := error_type(record)) is not None:
            attributes["error.type"] = error
        parent = _context(span.trace_id, span.parent_id, span.trace.tracestate, is_remote=True)
        links = [Link(_span_context(span.linked))] if span.linked is not None else []
        kind = SpanKind.CLIENT if record.is_outgoing else SpanKind.SERVER
        self._create_span(
            name, kind, span.trace_id, span.span_id, parent, attributes, record.started, record.ended,
            error is not None, links,
        )  # fmt: skip
        if record.began:
            attributes = {"mcpdesk.server": record.server}
            if (target := TARGETS.get(record.method)) and record.target:
                attributes[target] = record.target
            parent = _context(span.trace_id, span.span_id, span.trace.tracestate)
            subject = record.target if _has_target_in_name(record) else record.method
            self._create_span(
                f"handler {subject}", SpanKind.INTERNAL,
                span.trace_id, span.handler_id, parent, attributes, record.began,
                max(record.began, record.handled), error is not None,
            )  # fmt: skip

    def _question(self, record: QuestionRecord) -> None:
        is_for_person = record.method in DESK_QUESTIONS
        attributes: Attributes = {
            "mcpdesk.server": record.server,
            "mcpdesk.question.outcome": record.outcome,
            "mcpdesk.question.asked": "desk" if is_for_person else "client",
        }
        if record.tool:
            attributes["gen_ai.tool.name"] = record.tool
        if not is_for_person:
            attributes["mcp.method.name"] = record.method
        if record.has_failed:
            attributes["error.type"] = record.outcome
        span = record.span
        parent = _context(span.trace_id, span.handler_id, span.trace.tracestate)
        self._create_span(
            record.method, SpanKind.INTERNAL if is_for_person else SpanKind.CLIENT, span.trace_id,
            next(self._span_ids), parent, attributes, record.started, record.ended, record.has_failed,
        )  # fmt: skip

    def _work(self, record: WorkRecord) -> None:
        kind = record.kind.value
        attributes: Attributes = {
            "mcpdesk.server": record.server,
            "mcpdesk.job.kind": kind,
            "mcpdesk.job.outcome": str(record.outcome),
        }
        if record.tool:
            attributes["gen_ai.tool.name"] = record.tool
        if record.has_failed:
            attributes["error.type"] = str(record.outcome)
        self._create_span(
            f"{kind} {record.tool}".strip(), SpanKind.INTERNAL, record.trace_id, next(self._span_ids),
            _context(record.trace_id, record.parent_id), attributes, record.started, record.ended,
            record.has_failed,
        )  # fmt: skip

    def _create_span(
        self,
        name: str,
        kind: SpanKind,
        trace_id: int,
        span_id: int,
        parent: Context,
        attributes: Attributes,
        started: int,
        ended: int,
        has_failed: bool,
        links: Sequence[Link] = (),
    ) -> None:
        self._ids.trace_id, self._ids.span_id = trace_id, span_id
        span = self._tracer.start_span(name, parent, kind, attributes, links, started)
        if has_failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)


def _random_span_ids() -> Iterator[int]:
    from random import getrandbits

    while True:
        yield getrandbits(64) | 1


def _has_target_in_name(record: CallRecord) -> bool:
    """Return True if the target is part of the span's name.

    URIs of resources are excluded, because a server may have too many of them.
    """
    return bool(record.target) and record.method != "resources/read"


def _context(trace_id: int, span_id: int, state: str = "", *, is_remote: bool = False) -> Context:
    """Return the context in which a span is created: that of its parent, or an empty one."""
    if not span_id:
        return Context()
    trace_state = TraceState.from_header([state]) if state else None
    parent = SpanContext(trace_id, span_id, is_remote, TraceFlags(TraceFlags.SAMPLED), trace_state)
    return set_span_in_context(NonRecordingSpan(parent), Context())


def _span_context(trace: Trace) -> SpanContext:
    return SpanContext(int(trace.id, 16), int(trace.parent, 16), True, TraceFlags(int(trace.is_sampled)))


def operation_attributes(record: CallRecord) -> Attributes:
    """Return the attributes for counting a call. Each attribute has a limited number of values."""
    attributes: Attributes = {
        "mcp.method.name": record.method,
        "mcp.protocol.version": record.revision,
        "mcpdesk.server": record.server,
        **TRANSPORTS.get(record.transport, {}),
    }
    if record.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
    if _has_target_in_name(record):
        attributes[TARGETS[record.method]] = record.target
    if record.code:
        attributes["rpc.response.status_code"] = str(record.code)
    if record.status:
        attributes["http.response.status_code"] = record.status
    return attributes


def call_attributes(record: CallRecord) -> Attributes:
    """Return the attributes of a call's span: the `operation_attributes`, ids, and the time per phase."""
    attributes = operation_attributes(record) | {"jsonrpc.request.id": str(record.id)[:MAX_ID_LENGTH]}
    if record.method == "resources/read" and record.target:
        attributes["mcp.resource.uri"] = record.target
    if record.session:
        # The session id is hashed because it authorizes requests.
        attributes["mcp.session.id"] = sha256(record.session.encode()).hexdigest()[:32]
    if record.method == "tools/call" and (record.began or not record.code):
        attributes["mcpdesk.outcome"] = record.outcome.name.lower()
    elif record.is_cut_off:
        attributes["mcpdesk.outcome"] = OutcomeKind.CANCELLED.name.lower()
    if (phases := record.phases) is not None:
        queue_s = (record.began - record.started) / 1e9 if record.began else 0.0
        phase_seconds = {
            "queue": queue_s,
            "handler": phases.handler / 1e6,
            "client": phases.client / 1e6,
            "person": phases.person / 1e6,
            "shaping": phases.shaping / 1e6,
        }
        attributes |= {f"mcpdesk.phase.{kind}": seconds for kind, seconds in phase_seconds.items()}
    return attributes


def error_type(record: CallRecord) -> str | None:
    """Return the error type of a call.

    None if the call succeeded, or if its caller caused the error, cancelled the call or disconnected.
    """
    if record.code:
        is_server_error = record.code == ErrorCode.INTERNAL_ERROR or -32099 <= record.code <= -32000
        return str(record.code) if is_server_error else None
    if record.status >= 500:
        return str(record.status)
    if record.is_cut_off or record.outcome in (OutcomeKind.OK, OutcomeKind.CANCELLED):
        return None
    return "tool_error"


class _Tally(Struct):
    """Number and durations of requests with the same attributes."""

    metric: str
    attributes: Attributes
    counts: list[int]
    """Number of requests in each range of durations between two `BOUNDS`."""
    total_s: float = 0.0
    min_s: float = inf
    max_s: float = 0.0


MAX_COUNTED_COMBINATIONS = 2_000
"""Maximum number of combinations of attributes that are counted separately.

Further ones are counted together.
"""


class Durations:
    """Durations of requests by method, tool and outcome: the histograms of the conventions."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[object, ...], _Tally] = {}

    def count(self, record: CallRecord) -> None:
        """Count a finished request."""
        error = error_type(record)
        key: tuple[object, ...] = (
            record.server,
            record.method,
            record.target if _has_target_in_name(record) else "",
            record.revision,
            record.transport,
            record.code,
            record.status,
            record.is_outgoing,
            error,
        )
        tally = self._tallies.get(key)
        if tally is None and len(self._tallies) >= MAX_COUNTED_COMBINATIONS:
            key = (record.is_outgoing,)
            tally = self._tallies.get(key)
        if tally is None:
            attributes = operation_attributes(record) | ({} if error is None else {"error.type": error})
            if len(key) == 1:
                attributes = {"otel.metric.overflow": True}
            metric = CLIENT_DURATION if record.is_outgoing else SERVER_DURATION
            tally = self._tallies[key] = _Tally(metric, attributes, [0] * (len(BOUNDS) + 1))
        duration_s = (record.ended - record.started) / 1e9
        tally.counts[bisect_left(BOUNDS, duration_s)] += 1
        tally.total_s += duration_s
        tally.min_s, tally.max_s = min(tally.min_s, duration_s), max(tally.max_s, duration_s)

    def metrics(self, began: int, now: int) -> list[Metric]:
        """Return the histograms, or an empty list before the first request. Times are Unix nanoseconds."""
        points: dict[str, list[HistogramDataPoint]] = {}
        for each in self._tallies.values():
            points.setdefault(each.metric, []).append(
                HistogramDataPoint(
                    each.attributes,
                    began,
                    now,
                    sum(each.counts),
                    each.total_s,
                    each.counts.copy(),
                    BOUNDS,
                    each.min_s,
                    each.max_s,
                )
            )
        description = "Time of requests, from arrival to answer."
        return [
            Metric(name, description, "s", Histogram(data_points, AggregationTemporality.CUMULATIVE))
            for name, data_points in points.items()
        ]


def metric_of(figure: MetricFamily, began: int, now: int) -> Metric | None:
    """Return the OTLP form of a metric of `/metrics`, with the same name.

    None for a metric without values, and for a summary, because OTLP no longer supports summaries.
    """
    convert = _DATA_CONVERTERS.get(figure.kind)
    if convert is None or not figure.samples:
        return None
    name = figure.name.removesuffix("_total")
    unit = ""
    for suffix, suffix_unit in UNITS:
        if name.endswith(suffix):
            name = name.removesuffix(suffix)
            unit = suffix_unit
    return Metric(METRIC_PREFIX + name, figure.help, unit, convert(figure, began, now))


def _numbers(figure: MetricFamily, began: int, now: int) -> list[NumberDataPoint]:
    return [NumberDataPoint(dict(each.labels), began, now, each.value) for each in figure.samples]


def _sum(figure: MetricFamily, began: int, now: int) -> Sum:
    return Sum(_numbers(figure, began, now), AggregationTemporality.CUMULATIVE, True)


def _gauge(figure: MetricFamily, began: int, now: int) -> Gauge:
    return Gauge(_numbers(figure, began, now))


def _histogram(figure: MetricFamily, began: int, now: int) -> Histogram:
    groups: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in figure.samples:
        key = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        groups.setdefault(key, []).append(sample)
    points = [_histogram_point(dict(key), samples, began, now) for key, samples in groups.items()]
    return Histogram(points, AggregationTemporality.CUMULATIVE)


def _histogram_point(
    labels: Mapping[str, str], samples: Sequence[Sample], began: int, now: int
) -> HistogramDataPoint:
    """Convert a Prometheus histogram (counts below each bound) to OTLP (counts between two bounds)."""
    cumulative = [int(each.value) for each in samples if each.suffix == "_bucket"]
    bounds = [float(each.labels["le"]) for each in samples if each.suffix == "_bucket"][:-1]
    counts = [count - previous for previous, count in pairwise((0, *cumulative))]
    count, total = cumulative[-1], next(each.value for each in samples if each.suffix == "_sum")
    unknown: Any = None  # minimum and maximum are not recorded
    return HistogramDataPoint(dict(labels), began, now, count, total, counts, bounds, unknown, unknown)


_DATA_CONVERTERS: dict[str, Callable[[MetricFamily, int, int], Sum | Gauge | Histogram]] = {
    "counter": _sum,
    "gauge": _gauge,
    "histogram": _histogram,
}
