"""Where the time of one answer went, as measured where it was made."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

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
