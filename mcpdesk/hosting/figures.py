"""What a core counts, for `/metrics`. Nothing is stored for it: it reads what other parts keep anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from mcpdesk.hosting.traffic_figures import traffic_figures
from mcpdesk.inbox.question import QuestionState
from mcpdesk.jobs.programs import ProgramState
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.calls.call_figures import BOUNDS, OutcomeKind, at
from mcpdesk.transports.figure import Figure, FigureKind, Sample
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.jobs.job import Job
    from mcpdesk.recorder.capture.recording import Recording
    from mcpdesk.server.calls.services import Services
    from mcpdesk.upstream.upstream import Upstream

QUEUED = "queued"
"""The state of an asynchronous call that waits for its turn."""
QUANTILES = (0.5, 0.95, 0.99)
LATEST_PEERS = 256
"""The most peers whose latest calls count for the quantiles: those that connected last."""


def figures(
    recording: Recording,
    services: Services,
    endpoints: Sequence[HostedEndpoint],
    upstreams: Mapping[str, Upstream],
    uptime_s: float,
) -> Callable[[], list[Figure]]:
    """Everything `/metrics` shows, except what listeners count themselves. On the core's loop.

    What is returned adds what takes time to count: it is for another thread.
    """
    counted = _counted(recording, services, endpoints, uptime_s)
    return lambda: [*counted, *traffic_figures(recording.index, endpoints, upstreams)]


def _counted(
    recording: Recording, services: Services, endpoints: Sequence[HostedEndpoint], uptime_s: float
) -> list[Figure]:
    waiting = sum(question.state is QuestionState.WAITING for question in services.inbox.questions())
    single: list[tuple[str, str, float]] = [
        ("uptime_seconds", "How long the core has run.", uptime_s),
        ("frames_total", "Frames recorded.", recording.frames),
        ("frame_bytes_total", "Bytes of recorded frames.", recording.encoded_bytes),
        ("capture_failing", "1 while frames cannot be written to the capture file.", bool(recording.failing)),
        (
            "capture_missing_frames_total",
            "Frames left out of the capture because it could not be written.",
            recording.missing,
        ),
        ("questions_waiting", "Questions that wait for a person.", waiting),
    ]
    return [
        Figure("info", "gauge", "Which version runs.", [Sample(1, {"version": __version__})]),
        *(
            Figure(name, "counter" if name.endswith("_total") else "gauge", help, [Sample(value)])
            for name, help, value in single
        ),
        *(
            Figure(name, kind, help, [each for endpoint in endpoints for each in samples(endpoint)])
            for name, kind, help, samples in _OF_SERVERS
        ),
        _jobs(services, endpoints),
    ]


def _jobs(services: Services, endpoints: Sequence[HostedEndpoint]) -> Figure:
    tasks = Counter(map(_state, services.jobs.snapshot()))
    states = (one.server.hosted for one in endpoints)
    programs = Counter(
        program.state
        for state in states
        if state is not None and state.has_made("programs")
        for program in state.programs.all()
    )
    return Figure(
        "jobs",
        "gauge",
        "Calls that outlive their request (call), and programs in the background (program).",
        [
            *(Sample(tasks[state], {"kind": "call", "state": state}) for state in (QUEUED, *TaskStatus)),
            *(Sample(programs[state], {"kind": "program", "state": state.value}) for state in ProgramState),
        ],
    )


def _state(job: Job) -> str:
    is_waiting = job.feed is not None and job.started is None and not job.status.is_final
    return QUEUED if is_waiting else job.status


def _items(endpoint: HostedEndpoint) -> Iterator[Sample]:
    server = endpoint.server
    for registry in (server.tools, server.resources, server.templates, server.prompts):
        count = len(registry) if registry is not server.tools or server.tools_enabled else 0
        yield Sample(count, {"server": server.name, "kind": registry.kind})


def _unavailable(endpoint: HostedEndpoint) -> Iterator[Sample]:
    server = endpoint.server
    for registry in (server.tools, server.resources, server.templates, server.prompts):
        yield Sample(len(registry.unavailable), {"server": server.name, "kind": registry.kind})


def _peers(endpoint: HostedEndpoint) -> Iterator[Sample]:
    transports = Counter(each.conversation.transport for each in endpoint.dialogues.values())
    for transport in ("http", "websocket", "sse", "stdio", "unix", "memory"):
        yield Sample(transports[transport], {"server": endpoint.name, "transport": transport})


def _running(endpoint: HostedEndpoint) -> Iterator[Sample]:
    running = sum(len(each.conversation.running) for each in endpoint.dialogues.values())
    yield Sample(running, {"server": endpoint.name})


def _errors(endpoint: HostedEndpoint) -> Iterator[Sample]:
    now = sum(each.conversation.errors for each in endpoint.dialogues.values())
    yield Sample(endpoint.past.errors + now, {"server": endpoint.name})


def _outcomes(endpoint: HostedEndpoint) -> Iterator[Sample]:
    for tool, figure in endpoint.server.tool_figures:
        for outcome in OutcomeKind:
            labels = {"server": endpoint.name, "tool": tool, "outcome": outcome.name.lower()}
            yield Sample(figure.outcomes[outcome], labels)


def _tool_durations(endpoint: HostedEndpoint) -> Iterator[Sample]:
    for tool, figure in endpoint.server.tool_figures:
        labels = {"server": endpoint.name, "tool": tool}
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), accumulate(figure.counts), strict=True):
            yield Sample(count, {**labels, "le": bound}, "_bucket")
        yield Sample(sum(figure.counts), labels, "_count")
        yield Sample(figure.total_s, labels, "_sum")


def _durations(endpoint: HostedEndpoint) -> Iterator[Sample]:
    known = [each.conversation.latency for each in endpoint.dialogues.values()]
    ended = [latency for latency in known if latency is not None]
    name = {"server": endpoint.name}
    together = sorted(
        [*endpoint.past.latency, *(one for each in islice(reversed(ended), LATEST_PEERS) for one in each)]
    )
    for share in QUANTILES:
        if (value := at(together, share)) is not None:
            yield Sample(value, {**name, "quantile": str(share)})
    totals = (endpoint.past.latency, *ended)
    yield Sample(sum(each.total_s for each in totals), name, "_sum")
    yield Sample(sum(each.count for each in totals), name, "_count")


_OF_SERVERS: tuple[tuple[str, FigureKind, str, Callable[[HostedEndpoint], Iterator[Sample]]], ...] = (
    ("items", "gauge", "What is offered.", _items),
    (
        "items_unavailable",
        "gauge",
        "What is left out, because it is broken or lacks something.",
        _unavailable,
    ),
    ("peers", "gauge", "Connections and sessions.", _peers),
    ("calls_in_flight", "gauge", "Requests whose handlers run.", _running),
    ("errors_total", "counter", "Requests answered with a JSON-RPC error.", _errors),
    ("tool_calls_total", "counter", "Calls of tools, by how they ended.", _outcomes),
    ("tool_call_duration_seconds", "histogram", "How long the handlers of tools ran.", _tool_durations),
    (
        "call_duration_seconds",
        "summary",
        "Requests whose handlers ran; the quantiles are of the latest ones.",
        _durations,
    ),
)
"""The figures with samples of each server: name, kind, help, and the samples of one server."""
