"""Where the time of one answer went, as measured where it was made."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

DURATION_BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Upper ends of the ranges durations are counted in, in seconds; a last range has no end."""
Microseconds = Annotated[int, Meta(ge=0, le=1 << 53)]


class Phases(Struct, gc=False, frozen=True, array_like=True):
    """How long the parts of answering a request took; recorded with the answer.

    What lies between the request and the first of them was spent on parsing and waiting for a turn; what lies
    between `ready` and the answer's own time, until it was written.
    """

    ready: Annotated[float, Meta(ge=0, lt=1e11)]
    """Unix time in seconds at which the answer was there."""
    handler: Microseconds = 0
    """In hosted code, without what it waited for others."""
    client: Microseconds = 0
    """Waiting for an answer of the client."""
    person: Microseconds = 0
    """Waiting for a person at the desk."""
    shaping: Microseconds = 0
    """Checking and encoding what the handler returned."""
