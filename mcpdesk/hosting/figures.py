"""What a core counts, for `/metrics`. Nothing is kept for its sake: it looks at what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Protocol

from mcpdesk.inbox.question import QuestionState
from mcpdesk.jobs.programs import ProgramState
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.calls.call_figures import BOUNDS, OutcomeKind, at
from mcpdesk.transports.figure import Figure, Sample
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.jobs.job import JobSnapshot
    from mcpdesk.recorder.capture.recording import Recording
    from mcpdesk.server.calls.services import Services

QUEUED = "queued"
"""An asynchronous call whose turn has not come."""
QUANTILES = (0.5, 0.95, 0.99)
LOOKED_AT = 256
"""Peers whose latest calls are looked at: with thousands of them, those that came last say enough."""


class Core(Protocol):
    """What is looked at."""

    recording: Recording
    services: Services

    @property
    def inbox(self) -> Inbox:
        """Questions for a person."""

    @property
    def uptime_s(self) -> float:
        """Seconds since it started."""

    def endpoints(self) -> list[HostedEndpoint]:
        """Of its servers."""


def figures(core: Core) -> list[Figure]:
    """Everything but what listeners count themselves. On the core's loop."""
    return [*_of_core(core), *_of_servers(core), *_of_work(core)]


def _of_core(core: Core) -> Iterator[Figure]:
    recording = core.recording
    waiting = sum(question.state is QuestionState.WAITING for question in core.inbox.questions())
    yield Figure("info", "gauge", "Which version runs.", [Sample(1, {"version": __version__})])
    yield Figure("uptime_seconds", "gauge", "How long the core has run.", [Sample(core.uptime_s)])
    yield Figure("frames_total", "counter", "Frames recorded.", [Sample(recording.frames)])
    yield Figure(
        "frame_bytes_total", "counter", "Bytes of recorded frames.", [Sample(recording.encoded_bytes)]
    )
    yield Figure(
        "capture_failing",
        "gauge",
        "1 while frames cannot be written to the capture file.",
        [Sample(bool(recording.failing))],
    )
    yield Figure(
        "capture_missing_frames_total",
        "counter",
        "Frames left out of the capture because it could not be written.",
        [Sample(recording.missing)],
    )
    yield Figure("questions_waiting", "gauge", "Questions that wait for a person.", [Sample(waiting)])


def _of_servers(core: Core) -> Iterator[Figure]:
    endpoints = core.endpoints()
    yield Figure("items", "gauge", "What is offered.", [each for one in endpoints for each in _items(one)])
    yield Figure(
        "items_unavailable",
        "gauge",
        "What is left out, because it is broken or lacks something.",
        [each for one in endpoints for each in _unavailable(one)],
    )
    yield Figure(
        "peers", "gauge", "Connections and sessions.", [each for one in endpoints for each in _peers(one)]
    )
    yield Figure(
        "calls_in_flight",
        "gauge",
        "Requests whose handlers run.",
        [
            Sample(
                sum(len(each.conversation.running) for each in one.dialogues.values()), {"server": one.name}
            )
            for one in endpoints
        ],
    )
    yield Figure(
        "errors_total",
        "counter",
        "Requests answered with a JSON-RPC error.",
        [Sample(_errors(one), {"server": one.name}) for one in endpoints],
    )
    yield Figure(
        "tool_calls_total",
        "counter",
        "Calls of tools, by how they ended.",
        [each for one in endpoints for each in _outcomes(one)],
    )
    yield Figure(
        "tool_call_duration_seconds",
        "histogram",
        "How long the handlers of tools ran.",
        [each for one in endpoints for each in _tool_durations(one)],
    )
    yield Figure(
        "call_duration_seconds",
        "summary",
        "Requests whose handlers ran; the quantiles are of the latest ones.",
        [each for one in endpoints for each in _durations(one)],
    )


def _of_work(core: Core) -> Iterator[Figure]:
    tasks = Counter(map(_state, core.services.jobs.snapshot()))
    homes = (one.server.home for one in core.endpoints())
    programs = Counter(
        view.state
        for home in homes
        if home is not None and home.has_made("programs")
        for view in home.programs.views()
    )
    yield Figure(
        "jobs",
        "gauge",
        "Calls that outlive their request (call), and programs in the background (program).",
        [
            *(Sample(tasks[state], {"kind": "call", "state": state}) for state in (QUEUED, *TaskStatus)),
            *(Sample(programs[state], {"kind": "program", "state": state.value}) for state in ProgramState),
        ],
    )


def _state(job: JobSnapshot) -> str:
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


def _errors(endpoint: HostedEndpoint) -> int:
    return endpoint.past.errors + sum(each.conversation.errors for each in endpoint.dialogues.values())


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
        [*endpoint.past.latency, *(one for each in islice(reversed(ended), LOOKED_AT) for one in each)]
    )
    for share in QUANTILES:
        if (value := at(together, share)) is not None:
            yield Sample(value, {**name, "quantile": str(share)})
    totals = (endpoint.past.latency, *ended)
    yield Sample(sum(each.total_s for each in totals), name, "_sum")
    yield Sample(sum(each.count for each in totals), name, "_count")
