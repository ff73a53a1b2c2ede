"""Metric on `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

MetricKind = Literal["gauge", "counter", "summary", "histogram"]


class Sample(Struct, frozen=True):
    """One value of a metric. Labels never come from clients, because only few different ones may exist."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    """`_sum` or `_count` of a summary, or `_bucket` of a histogram.

    The other values of a summary have a label `quantile`; buckets have a label `le`.
    """


class MetricFamily(Struct, frozen=True):
    """Metric with its present values (samples), as Prometheus uses the term."""

    name: str
    """Name of the metric. The name of a counter ends with `_total`."""
    kind: MetricKind
    help: str
    samples: Sequence[Sample]
