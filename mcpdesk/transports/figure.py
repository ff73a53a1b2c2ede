"""One thing that is counted, as `/metrics` shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field


class Sample(Struct, frozen=True):
    """A value of a figure. No label comes from a client: there would be no end of them."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    """`_sum` and `_count` of a summary, whose other values have a label `quantile`; `_bucket` of a histogram,
    with a label `le`."""


class Figure(Struct, frozen=True):
    """What is counted, and how much it is now."""

    name: str
    """That of a counter ends with `_total`."""
    kind: Literal["gauge", "counter", "summary", "histogram"]
    help: str
    samples: Sequence[Sample]
