"""Values sent to OpenTelemetry: logs of the exporters, headers, and figures."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.features.telemetry.otlp_values import metric_of, process_resource, read_headers, reason_of
from mcpdesk.transports.metric import MetricFamily, MetricKind, Sample


@pytest.mark.parametrize(
    ("logged", "reason"),
    [
        (
            "Transient error HTTPConnectionPool(host='127.0.0.1', port=1): Max retries exceeded with url: / "
            "(Caused by NewConnectionError(\"HTTPConnection(host='127.0.0.1', port=1): Failed to establish "
            'a new connection: [Errno 111] Connection refused")) encountered while exporting spans batch',
            "Connection refused",
        ),
        ("Failed to export spans batch code: 404, reason: Not Found", "404 Not Found"),
        (
            "Transient error Service Unavailable encountered while exporting spans batch",
            "Service Unavailable",
        ),
        ("Failed to export spans batch due to timeout, max retries or shutdown.", "no answer within 3 s"),
        (
            "Transient error ('Connection aborted.', RemoteDisconnected('Remote end closed connection')) "
            "encountered while exporting metrics batch, retrying in 1.13s.",
            "Remote end closed connection",
        ),
        ("something else", "something else"),
    ],
)
def test_reason_is_what_a_person_would_say(logged: str, reason: str) -> None:
    assert reason_of(logged) == reason


def test_headers_are_read_as_the_standard_writes_them() -> None:
    assert read_headers("") == {}
    assert read_headers("Authorization=Bearer%20a%3Db, X-Team=core") == {
        "authorization": "Bearer a=b",
        "x-team": "core",
    }


def figure(name: str, kind: MetricKind, *samples: Sample) -> Any:
    return metric_of(MetricFamily(name, kind, "What it is.", samples), 1, 2)


def test_figures_keep_their_values_under_names_of_opentelemetry() -> None:
    calls = figure("tool_calls_total", "counter", Sample(3, {"server": "a", "tool": "b"}))
    assert (calls.name, calls.unit, calls.data.is_monotonic) == ("mcpdesk.tool_calls", "", True)
    (point,) = calls.data.data_points
    assert (point.value, point.attributes) == (3, {"server": "a", "tool": "b"})
    size = figure("frame_bytes_total", "counter", Sample(7))
    assert (size.name, size.unit) == ("mcpdesk.frame", "By")
    assert figure("peers", "gauge", Sample(1)).data.data_points[0].value == 1
    assert figure("peers", "gauge") is None
    assert figure("call_duration_seconds", "summary", Sample(1, {}, "_sum")) is None


def test_histogram_counts_what_lies_between_two_bounds() -> None:
    def of(tool: str, below: tuple[int, int, int], total: float) -> list[Sample]:
        labels = {"tool": tool}
        buckets = [
            Sample(count, {**labels, "le": bound}, "_bucket")
            for count, bound in zip(below, ("0.1", "1.0", "+Inf"), strict=True)
        ]
        return [*buckets, Sample(below[-1], labels, "_count"), Sample(total, labels, "_sum")]

    metric = figure("took_seconds", "histogram", *of("a", (2, 2, 5), 9.5), *of("b", (0, 1, 1), 0.5))
    assert (metric.name, metric.unit) == ("mcpdesk.took", "s")
    first, second = metric.data.data_points
    assert (first.bucket_counts, first.explicit_bounds) == ([2, 0, 3], [0.1, 1.0])
    assert (first.count, first.sum, first.attributes) == (5, 9.5, {"tool": "a"})
    assert (second.bucket_counts, second.count) == ([0, 1, 0], 1)


@pytest.mark.parametrize(
    ("attributes", "service", "name"),
    [
        ("", "", "mcpdesk"),
        ("service.namespace=shop", "", "mcpdesk"),
        ("service.name=mine,service.namespace=shop", "", "mine"),
        ("service.namespace=shop", "own", "own"),
    ],
)
def test_service_is_called_mcpdesk_unless_the_environment_names_it(
    attributes: str, service: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", attributes)
    monkeypatch.setenv("OTEL_SERVICE_NAME", service)
    assert process_resource().attributes["service.name"] == name
