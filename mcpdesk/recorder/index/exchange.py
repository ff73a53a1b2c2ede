"""Exchanges. An exchange is a request with its response, a notification, or an unreadable frame."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mcpdesk.recorder.record import Direction

Id = int | str | float
"""JSON-RPC id as it was sent. `1` and `"1"` are different ids."""


class ExchangeKind(StrEnum):
    """Kind of an exchange. The first message of the exchange decides it."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    """Response whose request is not known."""
    MALFORMED = "malformed"


KINDS = tuple(ExchangeKind)
"""All kinds. A table stores the index of each kind in this tuple."""


class Status(StrEnum):
    """Status of an exchange. `PENDING` and `ASKS` always change later; `CANCELLED` may become `LATE`."""

    PENDING = "pending"
    OK = "ok"
    ERROR = "error"
    """JSON-RPC error."""
    TOOL_ERROR = "tool-error"
    """Result with `isError`."""
    CANCELLED = "cancelled"
    LATE = "late"
    """The response arrived after its request had ended, or no request had its id."""
    LOST = "lost"
    """No response arrived: the connection closed, or the desk dropped the request or the response."""
    MALFORMED = "malformed"
    SENT = "sent"
    """A notification was sent. Notifications have no response."""
    ASKS = "asks"
    """The response was `input_required`, and the client has not sent its answers yet."""
    NEGOTIATION = "negotiation"
    """The server does not support a method with which the client tried to agree on a revision. Not an
    error.
    """
    LEFT = "stopped-waiting"
    """The call is cancelled, but its code still runs. The status becomes `CANCELLED` when the code ends."""


FAILED = frozenset({Status.ERROR, Status.TOOL_ERROR, Status.LOST, Status.MALFORMED})
"""Statuses that count as failures."""
STATUSES = tuple(Status)
"""All statuses. A table stores the index of each status in this tuple."""


class Exchange(msgspec.Struct, gc=False, frozen=True):
    """Snapshot of an exchange."""

    number: int
    """Number of the exchange in the index, from 0, without gaps."""
    kind: ExchangeKind
    connection: int
    server: str
    peer: str
    direction: Direction
    """Direction of the request. `IN` means that the client sent it."""
    method: str
    """Method. Empty for a response without a request and for a malformed frame."""
    name: str
    """Name of the tool or prompt, URI, or task id, or "" if the method has none."""
    id: Id | None
    status: Status
    started: float
    """Unix time of the first frame in seconds."""
    ended: float | None
    """Unix time of the last frame in seconds, or None while the exchange has not ended."""
    size: int
    """Size in bytes of request and response together."""
    revision: str
    request: int | None
    """Number of the frame with the request."""
    response: int | None
    """Number of the frame with the response."""
    notifications: tuple[int, ...]
    """Numbers of the frames with progress and log notifications of the call."""
    is_slow: bool
    """True if the exchange took more than twice as long as 9 of 10 exchanges with the same method and name.
    """
    part_of: int | None = None
    """Number of the exchange that this exchange is part of, or None if it is not a part.

    A later round, a question to the client and a poll of a task are parts of a call.
    """
    parts: tuple[int, ...] = ()
    """Numbers of the exchanges that are parts of this one, in the order of their start."""
    rounds: int = 1
    """Number of requests (rounds) of the call. `requestState` links them."""
    waited: float = 0.0
    """Seconds that the call waited for answers of the client. A wait that has not ended is not included."""
    questions: int = 0
    """Number of requests that the server sent to its client during the call."""
    asked_at: float | None = None
    """Unix time in seconds at which the current wait for answers of the client began, or None."""
    core: str = ""
    """Name of the core that has the connection, if the desk shows several cores."""

    def elapsed(self, now: float) -> float:
        """Return the seconds from request to response. A pending request counts up to `now`."""
        return (now if self.ended is None else self.ended) - self.started

    def waiting(self, now: float) -> float:
        """Return the seconds spent waiting for the client.

        A question without an answer counts up to `now`.
        """
        return self.waited + (0.0 if self.asked_at is None else max(0.0, now - self.asked_at))

    @property
    def polls(self) -> int:
        """Number of polls of the task."""
        return len(self.parts) - (self.rounds - 1) - self.questions


def dropped(number: int) -> Exchange:
    """Return a placeholder for an exchange that is no longer in the index. The capture still has it."""
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
