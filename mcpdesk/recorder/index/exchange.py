"""Exchanges: a request with its response, a notification, or an unreadable frame."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mcpdesk.recorder.record import Direction

Id = int | str | float
"""JSON-RPC id as sent; `1` and `"1"` are different ids."""


class ExchangeKind(StrEnum):
    """Kind of an exchange, by the message that began it."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    """Response without a known request."""
    MALFORMED = "malformed"


KINDS = tuple(ExchangeKind)
"""All kinds. A table stores the index of a kind in this tuple."""


class Status(StrEnum):
    """Status of an exchange. `PENDING` and `ASKS` are temporary; `CANCELLED` may become `LATE`."""

    PENDING = "pending"
    OK = "ok"
    ERROR = "error"
    """JSON-RPC error."""
    TOOL_ERROR = "tool-error"
    """Result with `isError`."""
    CANCELLED = "cancelled"
    LATE = "late"
    """Response to a request that was no longer pending, or never was."""
    LOST = "lost"
    """No response came: the connection closed, or the desk dropped the request or its response."""
    MALFORMED = "malformed"
    SENT = "sent"
    """Notification, which is never answered."""
    ASKS = "asks"
    """The response was `input_required`, and the client has not sent the answers yet."""
    NEGOTIATION = "negotiation"
    """The server lacks a method that the client used to find its revision; this is normal."""
    LEFT = "stopped-waiting"
    """Cancelled, but the code of the call is still running; becomes `CANCELLED` when it ends."""


FAILED = frozenset({Status.ERROR, Status.TOOL_ERROR, Status.LOST, Status.MALFORMED})
"""Statuses that are failures."""
STATUSES = tuple(Status)
"""All statuses. A table stores the index of a status in this tuple."""


class Exchange(msgspec.Struct, gc=False, frozen=True):
    """Snapshot of an exchange."""

    number: int
    """Position in the index, from 0, without gaps."""
    kind: ExchangeKind
    connection: int
    server: str
    peer: str
    direction: Direction
    """Direction of the request; `IN` comes from the peer."""
    method: str
    """Empty for a response without a request and for malformed frames."""
    name: str
    """Name of a tool or prompt, URI, or task id; empty if the method has none."""
    id: Id | None
    status: Status
    started: float
    """Unix time of the first frame in seconds."""
    ended: float | None
    """Unix time in seconds; None while pending."""
    size: int
    """Bytes of request and response together."""
    revision: str
    request: int | None
    """Number of the request frame."""
    response: int | None
    """Number of the response frame."""
    notifications: tuple[int, ...]
    """Frame numbers of the progress and log notifications of the call."""
    is_slow: bool
    """True if the call took more than twice as long as 9 in 10 with the same method and name."""
    whole: int | None = None
    """Number of the exchange that this one is part of, as a later round, a question to the client, or a
    poll of the task."""
    parts: tuple[int, ...] = ()
    """Numbers of the exchanges that are part of this one, in order of their start."""
    rounds: int = 1
    """Number of requests, linked by `requestState`."""
    waited: float = 0.0
    """Seconds during which a question to the client was unanswered."""
    questions: int = 0
    """Number of requests of the server to its client during the call."""
    asked_at: float | None = None
    """Unix time in seconds since which a question to the client is unanswered, or None."""
    replica: str = ""
    """Replica that the exchange went through, if a desk shows several."""

    def elapsed(self, now: float) -> float:
        """Return the seconds from request to response, or to `now` while pending."""
        return (now if self.ended is None else self.ended) - self.started

    def waiting(self, now: float) -> float:
        """Return the seconds waited for the client, up to `now` while a question is unanswered."""
        return self.waited + (0.0 if self.asked_at is None else max(0.0, now - self.asked_at))

    @property
    def looks(self) -> int:
        """Number of polls of its task."""
        return len(self.parts) - (self.rounds - 1) - self.questions


def dropped(number: int) -> Exchange:
    """Return a placeholder for an exchange that the index has dropped; the capture still has it."""
    return Exchange(
        number,
        ExchangeKind.MALFORMED,
        connection=-1,
        server="",
        peer="",
        direction=Direction.IN,
        method="",
        name="",
        id=None,
        status=Status.LOST,
        started=0.0,
        ended=0.0,
        size=0,
        revision="",
        request=None,
        response=None,
        notifications=(),
        is_slow=False,
    )
