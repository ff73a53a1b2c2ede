"""Metrics of upstream servers. They have the names of the metrics of hosted servers.

They are computed from the recorded requests and answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate

from mcpdesk.protocol.methods import CALLS
from mcpdesk.protocol.phases import DURATION_BOUNDS
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.recorder.index.statistics import OTHER, CallStatistics, CallTally, Subject
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.transports.metric import MetricFamily, MetricKind, Sample
from mcpdesk.upstream.upstream import Upstream

QUANTILES = (0.5, 0.95, 0.99)
"""Fractions for which summaries have a quantile."""
OUTCOMES = {
    Status.OK: OutcomeKind.OK.name.lower(),
    Status.TOOL_ERROR: OutcomeKind.TOOL_ERROR.name.lower(),
    Status.ERROR: "protocol_error",
    Status.MALFORMED: "protocol_error",
    Status.CANCELLED: OutcomeKind.CANCELLED.name.lower(),
    Status.LATE: OutcomeKind.CANCELLED.name.lower(),
    Status.LOST: "lost",
}
"""Value of the label `outcome`, by status of a call. Hosted servers distinguish more outcomes."""


def upstream_metrics(statistics: CallStatistics, upstreams: Mapping[str, Upstream]) -> list[MetricFamily]:
    """Return metrics of upstream servers. Calls of tools that a server does not list are counted together."""
    offered_keys = {(name, offer.name) for name, each in upstreams.items() for offer in each.status.offers}
    tools: dict[tuple[str, str], CallTally] = {}
    servers = {name: CallTally(statistics.times) for name in upstreams}
    errors = Counter[str]()
    for (server, name), tally in statistics.sums(Subject.TOOL).items():
        if server in upstreams and name not in CALLS:
            key = (server, name if (server, name) in offered_keys else OTHER)
            tools.setdefault(key, CallTally(statistics.times)).merge(tally)
    for (server, method), tally in statistics.sums(Subject.METHOD).items():
        if server in upstreams:
            errors[server] += tally.ended_in(Status.ERROR)
            if method in CALLS:
                servers[server].merge(tally)
    running = statistics.running()
    families: tuple[tuple[str, MetricKind, list[Sample]], ...] = (
        ("items", "gauge", [sample for upstream in upstreams.values() for sample in _item_samples(upstream)]),
        ("calls_in_flight", "gauge", [Sample(running[name], {"server": name}) for name in upstreams]),
        ("errors_total", "counter", [Sample(errors[name], {"server": name}) for name in upstreams]),
        (
            "tool_calls_total",
            "counter",
            [sample for key, tally in tools.items() for sample in _outcome_samples(key, tally)],
        ),
        (
            "tool_call_duration_seconds",
            "histogram",
            [sample for key, tally in tools.items() for sample in _histogram_samples(key, tally)],
        ),
        (
            "call_duration_seconds",
            "summary",
            [sample for name, tally in servers.items() for sample in _summary_samples(name, tally)],
        ),
    )
    return [MetricFamily(name, kind, "", samples) for name, kind, samples in families]


def joined(families: list[MetricFamily], added_families: list[MetricFamily]) -> list[MetricFamily]:
    """Combine two lists of metrics.

    If both have a metric, its samples are joined under the first help text.
    """
    added_by_name = {family.name: family for family in added_families}
    merged_families: list[MetricFamily] = []
    for family in families:
        added_family = added_by_name.pop(family.name, None)
        if added_family is None:
            merged_families.append(family)
        else:
            samples = [*family.samples, *added_family.samples]
            merged_families.append(MetricFamily(family.name, family.kind, family.help, samples))
    return [*merged_families, *added_by_name.values()]


def _item_samples(upstream: Upstream) -> Iterator[Sample]:
    for kind, count in upstream.offered().items():
        yield Sample(count, {"server": upstream.name, "kind": kind})


def _outcome_samples(key: tuple[str, str], tally: CallTally) -> Iterator[Sample]:
    counts = dict.fromkeys(OUTCOMES.values(), 0)
    for status, outcome in OUTCOMES.items():
        counts[outcome] += tally.ended_in(status)
    for outcome, count in counts.items():
        yield Sample(count, {"server": key[0], "tool": key[1], "outcome": outcome})


def _histogram_samples(key: tuple[str, str], tally: CallTally) -> Iterator[Sample]:
    labels = {"server": key[0], "tool": key[1]}
    bounds = (*map(str, DURATION_BOUNDS), "+Inf")
    for bound, count in zip(bounds, accumulate(tally.buckets), strict=True):
        yield Sample(count, {**labels, "le": bound}, "_bucket")
    yield Sample(tally.answered, labels, "_count")
    yield Sample(tally.total_s, labels, "_sum")


def _summary_samples(server: str, tally: CallTally) -> Iterator[Sample]:
    for fraction in QUANTILES:
        if (seconds := tally.quantile(fraction)) is not None:
            yield Sample(seconds, {"server": server, "quantile": str(fraction)})
    yield Sample(tally.total_s, {"server": server}, "_sum")
    yield Sample(tally.answered, {"server": server}, "_count")
