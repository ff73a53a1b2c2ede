"""Metric as shown on `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

FigureKind = Literal["gauge", "counter", "summary", "histogram"]


class Sample(Struct, frozen=True):
    """One value of a figure. Labels never come from clients, because their number must stay small."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    """`_sum` and `_count` of a summary, whose other values have a label `quantile`; `_bucket` of a
    histogram, which has a label `le`."""


class Figure(Struct, frozen=True):
    """One metric of `/metrics` with its present values."""

    name: str
    """Name; that of a counter ends with `_total`."""
    kind: FigureKind
    help: str
    samples: Sequence[Sample]
