"""Time spent in the phases of one answer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

DURATION_BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Upper bounds of the histogram buckets for durations, in seconds. The last bucket is unbounded."""
Microseconds = Annotated[int, Meta(ge=0, le=1 << 53)]


class Phases(Struct, gc=False, frozen=True, array_like=True):
    """Durations of the phases of answering a request, recorded with the answer.

    The time between the request and the first phase was spent on parsing and waiting for the event loop. The
    time between `ready` and the time of the answer was spent on writing.
    """

    ready: Annotated[float, Meta(ge=0, lt=1e11)]
    """Unix time in seconds at which the answer was ready."""
    handler: Microseconds = 0
    """Time in hosted code, without the time for which this code waited for the client or a person."""
    client: Microseconds = 0
    """Time waiting for an answer of the client."""
    person: Microseconds = 0
    """Time waiting for a person at the desk."""
    shaping: Microseconds = 0
    """Time for checking and encoding the handler's result."""
