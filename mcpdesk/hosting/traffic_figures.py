"""What `/metrics` tells of the calls on the wire, to folders and to other servers: the desk's statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING

from mcpdesk.recorder.index.statistics import OTHER, CallTally, Subject
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.transports.figure import Figure, FigureKind, Sample

if TYPE_CHECKING:
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.upstream.upstream import Upstream

LOOK_S = 1.0
"""What one look may take; frames that are left then are counted by the next."""
SLICE_S = 0.004
BREATH_S = 0.0005
"""Left to the core between two slices: calls come first."""
QUANTILES = (0.5, 0.95, 0.99)
Labels = dict[str, str]


def traffic_figures(
    index: Index, endpoints: Sequence[HostedEndpoint], upstreams: Mapping[str, Upstream]
) -> list[Figure]:
    """The figures of the tools that are offered now; calls of others are counted together.

    Reads frames that nobody has looked at: for a thread, and not the core's.
    """
    offered = {(one.name, tool) for one in endpoints for tool in one.server.tools.items}
    for server, upstream in upstreams.items():
        offered |= {(server, offer.name) for offer in upstream.status.offers if offer.kind == "tool"}
    until = monotonic() + LOOK_S
    while index.catch_up(SLICE_S) and monotonic() < until:
        sleep(BREATH_S)
    counted = index.statistics
    tools: dict[tuple[str, str], CallTally] = {}
    for (server, name), tally in counted.sums(Subject.TOOL).items():
        key = (server, name if (server, name) in offered else OTHER)
        tools.setdefault(key, CallTally(counted.times)).join(tally)
    told = [({"server": server, "tool": name}, tally) for (server, name), tally in tools.items()]
    definitions = {key: tokens for key, tokens in counted.definitions().items() if key in offered}
    figures: tuple[tuple[str, FigureKind, str, Iterable[Sample]], ...] = (
        (
            "tool_answers_total",
            "counter",
            "Calls of tools of folders and of other servers, as they passed.",
            (sample for labels, tally in told for sample in _answers(labels, tally)),
        ),
        (
            "tool_answer_seconds",
            "summary",
            "From the request of a call to its answer, waiting for people included.",
            (sample for labels, tally in told for sample in _seconds(labels, tally)),
        ),
        (
            "tool_message_bytes_total",
            "counter",
            "Bytes of calls (in) and of their answers (out).",
            (sample for labels, tally in told for sample in _bytes(labels, tally)),
        ),
        (
            "tool_result_tokens_total",
            "counter",
            "About how many tokens the results of calls had.",
            (Sample(tally.tokens, labels) for labels, tally in told),
        ),
        (
            "tool_definition_tokens",
            "gauge",
            "About how many tokens the definition of a tool has, as clients were told last.",
            (Sample(cost, {"server": server, "tool": name}) for (server, name), cost in definitions.items()),
        ),
        (
            "unread_frames",
            "gauge",
            "Frames the figures of answers do not count yet.",
            [Sample(index.frame_count - index.paired)],
        ),
    )
    return [Figure(name, kind, help, list(samples)) for name, kind, help, samples in figures]


def _answers(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    yield Sample(tally.calls - tally.errors, {**labels, "status": "ok"})
    yield Sample(tally.errors, {**labels, "status": "failed"})


def _seconds(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    for share in QUANTILES:
        if (seconds := tally.at(share)) is not None:
            yield Sample(seconds, {**labels, "quantile": str(share)})
    yield Sample(tally.total_s, labels, "_sum")
    yield Sample(tally.answered, labels, "_count")


def _bytes(labels: Labels, tally: CallTally) -> Iterable[Sample]:
    yield Sample(tally.received, {**labels, "direction": "in"})
    yield Sample(tally.sent, {**labels, "direction": "out"})
