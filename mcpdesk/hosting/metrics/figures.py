"""Metrics of a core, computed from data that other modules keep. This module stores nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpdesk.hosting.metrics.upstream_metrics import QUANTILES, joined, upstream_metrics
from mcpdesk.inbox.question import QuestionState
from mcpdesk.jobs.programs import ProgramState
from mcpdesk.protocol.methods import CALLS
from mcpdesk.protocol.phases import DURATION_BOUNDS
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.recorder.index.statistics import OTHER, CallTally, Subject
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.server.calls.call_figures import OutcomeKind, quantile
from mcpdesk.transports.metric import MetricFamily, MetricKind, Sample
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.jobs.job import Job
    from mcpdesk.recorder.capture.recording import Recording
    from mcpdesk.server.calls.services import Services
    from mcpdesk.upstream.upstream import Upstream


MAX_COUNT_S = 1.0
"""Seconds that one scrape may spend on counting frames. The next scrape counts the remaining frames."""
SLICE_S = 0.004
"""Seconds for which frames are counted without a pause."""
SLICE_PAUSE_S = 0.0005
"""Seconds between two slices of counting, during which the core can handle calls."""
Labels = dict[str, str]


def traffic_figures(
    index: Index, endpoints: Sequence[HostedEndpoint], upstreams: Mapping[str, Upstream]
) -> list[MetricFamily]:
    """Return metrics per tool. Calls of tools that are not offered now are counted together.

    Counts frames that were not counted yet. Call it on a worker thread.
    """
    offered_tools = {(endpoint.name, tool) for endpoint in endpoints for tool in endpoint.server.tools.items}
    for server, upstream in upstreams.items():
        offered_tools |= {(server, offer.name) for offer in upstream.status.offers if offer.kind == "tool"}
    deadline = monotonic() + MAX_COUNT_S
    while index.catch_up(SLICE_S) and monotonic() < deadline:
        sleep(SLICE_PAUSE_S)
    statistics = index.statistics
    tools: dict[tuple[str, str], CallTally] = {}
    for (server, name), tally in statistics.sums(Subject.TOOL).items():
        if name in CALLS:
            continue
        key = (server, name if (server, name) in offered_tools else OTHER)
        tools.setdefault(key, CallTally(statistics.times)).merge(tally)
    labelled_tallies = [({"server": server, "tool": name}, tally) for (server, name), tally in tools.items()]
    definitions = {key: tokens for key, tokens in statistics.definitions().items() if key in offered_tools}
    calls = [(key, tally) for key, tally in statistics.sums(Subject.METHOD).items() if key[1] in CALLS]
    families: tuple[tuple[str, MetricKind, str, Iterable[Sample]], ...] = (
        (
            "calls_total",
            "counter",
            "Tool calls, resource reads and prompt fetches in the traffic.",
            (
                sample
                for (server, method), tally in calls
                for sample in _answer_samples({"server": server, "method": method}, tally)
            ),
        ),
        (
            "tool_answers_total",
            "counter",
            "Tool calls in the traffic, to server folders and to upstream servers.",
            (sample for labels, tally in labelled_tallies for sample in _answer_samples(labels, tally)),
        ),
        (
            "tool_answer_seconds",
            "summary",
            "Time from a tool call to its answer. Waiting for clients and people is not included.",
            (sample for labels, tally in labelled_tallies for sample in _duration_summary(labels, tally)),
        ),
        (
            "tool_message_bytes_total",
            "counter",
            "Bytes of tool calls (direction in) and of their answers (direction out).",
            (sample for labels, tally in labelled_tallies for sample in _byte_samples(labels, tally)),
        ),
        (
            "tool_result_tokens_total",
            "counter",
            "Approximate number of tokens in the results of tool calls.",
            (Sample(tally.tokens, labels) for labels, tally in labelled_tallies),
        ),
        (
            "tool_definition_tokens",
            "gauge",
            "Approximate number of tokens in the tool definition that clients received last.",
            (Sample(cost, {"server": server, "tool": name}) for (server, name), cost in definitions.items()),
        ),
        (
            "unread_frames",
            "gauge",
            "Recorded frames that metrics such as calls_total do not count yet.",
            [Sample(index.frame_count - index.paired)],
        ),
        (
            "uncounted_frames_total",
            "counter",
            "Frames that were deleted before metrics such as calls_total counted them.",
            [Sample(index.missing_frames)],
        ),
    )
    return [MetricFamily(name, kind, help, list(samples)) for name, kind, help, samples in families]


def _answer_samples(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    yield Sample(tally.calls - tally.errors, {**labels, "status": "ok"})
    yield Sample(tally.errors, {**labels, "status": "failed"})


def _duration_summary(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    for fraction in QUANTILES:
        if (seconds := tally.quantile(fraction)) is not None:
            yield Sample(seconds, {**labels, "quantile": str(fraction)})
    yield Sample(tally.total_s, labels, "_sum")
    yield Sample(tally.answered, labels, "_count")


def _byte_samples(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    yield Sample(tally.received, {**labels, "direction": "in"})
    yield Sample(tally.sent, {**labels, "direction": "out"})


QUEUED = "queued"
"""State of an asynchronous call that has not started."""
LATEST_PEERS = 256
"""Number of peers whose recent calls are used for the quantiles. These are the peers that connected last."""


def with_traffic(
    core_figures: Sequence[MetricFamily],
    index: Index,
    endpoints: Sequence[HostedEndpoint],
    upstreams: Mapping[str, Upstream],
) -> list[MetricFamily]:
    """Return the metrics of `core_figures` and of the traffic. Metrics of the listeners are not included.

    Counting takes time, so call it on a worker thread.
    """
    traffic = traffic_figures(index, endpoints, upstreams)
    return joined(
        [*core_figures, *traffic], upstream_metrics(index.statistics, upstreams) if upstreams else []
    )


def core_figures(
    recording: Recording, services: Services, endpoints: Sequence[HostedEndpoint], uptime_s: float
) -> list[MetricFamily]:
    """Return the metrics that are available without counting frames. Call it on the core's loop."""
    own_questions = (question for question in services.inbox.questions() if not question.core)
    waiting_count = sum(question.state is QuestionState.WAITING for question in own_questions)
    values: list[tuple[str, str, float]] = [
        ("uptime_seconds", "Seconds since the start of the process.", uptime_s),
        ("frames_total", "Recorded frames.", recording.frames),
        ("frame_bytes_total", "Bytes of recorded frames.", recording.encoded_bytes),
        (
            "capture_failing",
            "1 if frames cannot be written to the capture file, otherwise 0.",
            int(bool(recording.failing)),
        ),
        (
            "capture_missing_frames_total",
            "Frames that could not be written to the capture file.",
            recording.missing,
        ),
        (
            "capture_removed_files_total",
            "Capture files that were removed because of the limits for captures.",
            recording.removed_files,
        ),
        (
            "capture_removed_bytes_total",
            "Bytes of capture files that were removed because of the limits for captures.",
            recording.removed_bytes,
        ),
        ("questions_waiting", "Questions that wait for a person.", waiting_count),
        (
            "answered_rounds_dropped_total",
            "Answered rounds (revision 2026-07-28) and their results that were deleted to limit memory.",
            services.rounds.answered_rounds.dropped if services.has_created("rounds") else 0,
        ),
    ]
    return [
        MetricFamily(
            "info",
            "gauge",
            "1; the label has the version of the program.",
            [Sample(1, {"version": __version__})],
        ),
        *(
            MetricFamily(name, "counter" if name.endswith("_total") else "gauge", help, [Sample(value)])
            for name, help, value in values
        ),
        *(
            MetricFamily(name, kind, help, [sample for endpoint in endpoints for sample in samples(endpoint)])
            for name, kind, help, samples in _SERVER_METRICS
        ),
        _jobs_metric(services, endpoints),
    ]


def _jobs_metric(services: Services, endpoints: Sequence[HostedEndpoint]) -> MetricFamily:
    job_counts = Counter(map(_job_state, services.jobs.snapshot()))
    states = (endpoint.server.hosted for endpoint in endpoints)
    program_counts = Counter(
        program.state
        for state in states
        if state is not None and state.has_created("programs")
        for program in state.programs.all()
    )
    return MetricFamily(
        "jobs",
        "gauge",
        "Calls that run after their request ended (kind call), and background programs (kind program).",
        [
            *(Sample(job_counts[state], {"kind": "call", "state": state}) for state in (QUEUED, *TaskStatus)),
            *(
                Sample(program_counts[state], {"kind": "program", "state": state.value})
                for state in ProgramState
            ),
        ],
    )


def _job_state(job: Job) -> str:
    """Return the state of a job in the metrics."""
    is_waiting = job.feed is not None and job.started is None and not job.status.is_final
    return QUEUED if is_waiting else job.status


def _item_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    server = endpoint.server
    for registry in (server.tools, server.resources, server.templates, server.prompts):
        count = len(registry) if registry is not server.tools or server.tools_enabled else 0
        yield Sample(count, {"server": server.name, "kind": registry.kind})


def _unavailable_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    server = endpoint.server
    for registry in (server.tools, server.resources, server.templates, server.prompts):
        yield Sample(len(registry.unavailable), {"server": server.name, "kind": registry.kind})


def _peer_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    transports = Counter(dialogue.conversation.transport for dialogue in endpoint.dialogues.values())
    for transport in ("http", "websocket", "sse", "stdio", "unix", "memory"):
        yield Sample(transports[transport], {"server": endpoint.name, "transport": transport})


def _running_call_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    dialogues = endpoint.dialogues.values()
    running = sum(call.method in CALLS for dialogue in dialogues for call in dialogue.conversation.running)
    yield Sample(running, {"server": endpoint.name})


def _error_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    current_errors = sum(dialogue.conversation.errors for dialogue in endpoint.dialogues.values())
    yield Sample(endpoint.past_calls.errors + current_errors, {"server": endpoint.name})


def _outcome_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    for tool, figure in endpoint.server.tool_figures:
        for outcome in OutcomeKind:
            labels = {"server": endpoint.name, "tool": tool, "outcome": outcome.name.lower()}
            yield Sample(figure.outcomes[outcome], labels)


def _tool_duration_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    for tool, figure in endpoint.server.tool_figures:
        labels = {"server": endpoint.name, "tool": tool}
        for bound, count in zip((*map(str, DURATION_BOUNDS), "+Inf"), accumulate(figure.counts), strict=True):
            yield Sample(count, {**labels, "le": bound}, "_bucket")
        yield Sample(sum(figure.counts), labels, "_count")
        yield Sample(figure.total_s, labels, "_sum")


def _call_duration_samples(endpoint: HostedEndpoint) -> Iterator[Sample]:
    optional_latencies = [dialogue.conversation.latency for dialogue in endpoint.dialogues.values()]
    latencies = [latency for latency in optional_latencies if latency is not None]
    labels = {"server": endpoint.name}
    durations = sorted(
        [
            *endpoint.past_calls.latency,
            *(duration for latency in islice(reversed(latencies), LATEST_PEERS) for duration in latency),
        ]
    )
    for fraction in QUANTILES:
        if (value := quantile(durations, fraction)) is not None:
            yield Sample(value, {**labels, "quantile": str(fraction)})
    totals = (endpoint.past_calls.latency, *latencies)
    yield Sample(sum(latency.total_s for latency in totals), labels, "_sum")
    yield Sample(sum(latency.count for latency in totals), labels, "_count")


_SERVER_METRICS: tuple[tuple[str, MetricKind, str, Callable[[HostedEndpoint], Iterator[Sample]]], ...] = (
    ("items", "gauge", "Tools, resources and prompts that are offered.", _item_samples),
    (
        "items_unavailable",
        "gauge",
        "Items that are not offered because they have an error or lack a requirement.",
        _unavailable_samples,
    ),
    ("peers", "gauge", "Connections and sessions of clients.", _peer_samples),
    ("calls_in_flight", "gauge", "Running handlers of tools, resources and prompts.", _running_call_samples),
    ("errors_total", "counter", "Requests whose response was a JSON-RPC error.", _error_samples),
    ("tool_calls_total", "counter", "Tool calls, by outcome.", _outcome_samples),
    ("tool_call_duration_seconds", "histogram", "Run time of tool handlers.", _tool_duration_samples),
    (
        "call_duration_seconds",
        "summary",
        "Run time of handlers of tools, resources and prompts. The quantiles cover only the latest calls.",
        _call_duration_samples,
    ),
)
"""Metrics per server: name, kind, help text, and a function that returns the samples of one server."""
