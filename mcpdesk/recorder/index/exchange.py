"""One line of the traffic: a request with its response, a notification, or a frame nobody can read."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mcpdesk.recorder.record import Direction

Id = int | str | float
"""A JSON-RPC id as sent; `1` and `"1"` are different ids."""


class ExchangeKind(StrEnum):
    """What a line of the traffic stands for, and what kind of message began it."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"
    """A response to no request that is known."""
    MALFORMED = "malformed"


KINDS = tuple(ExchangeKind)
"""A table keeps the position of a kind in here."""


class Status(StrEnum):
    """How an exchange stands. `PENDING` and `ASKS` pass; a cancelled one may turn late."""

    PENDING = "pending"
    OK = "ok"
    ERROR = "error"
    """A JSON-RPC error."""
    TOOL_ERROR = "tool-error"
    """A result with `isError`."""
    CANCELLED = "cancelled"
    LATE = "late"
    """A response nobody waited for any more, or ever."""
    LOST = "lost"
    """The connection closed before a response came."""
    MALFORMED = "malformed"
    SENT = "sent"
    """A notification: nothing ever answers it."""
    ASKS = "asks"
    """The response was `input_required`, and the client has not come back with answers."""
    NEGOTIATION = "negotiation"
    """The server lacks what a client asked for to learn its revision, and does not need it."""
    LEFT = "stopped-waiting"
    """Cancelled, and the code of its call still runs; it turns into `CANCELLED`."""


FAILED = frozenset({Status.ERROR, Status.TOOL_ERROR, Status.LOST, Status.MALFORMED})
"""The states in which something went wrong."""
STATUSES = tuple(Status)
"""A table keeps the position of a status in here."""


class Exchange(msgspec.Struct, gc=False, frozen=True):
    """An exchange as it stood when it was looked at."""

    number: int
    """Position in the index, from 0, without gaps."""
    kind: ExchangeKind
    connection: int
    server: str
    peer: str
    direction: Direction
    """The way the request went; `IN` is asked by the peer."""
    method: str
    """Empty for a response without a request and for malformed frames."""
    name: str
    """Tool or prompt name, URI, task id; empty when the method names nothing."""
    id: Id | None
    status: Status
    started: float
    """Unix time in seconds of the first frame."""
    ended: float | None
    """Unix time in seconds; None while pending."""
    size: int
    """Bytes of request and response together."""
    revision: str
    request: int | None
    """Frame number."""
    response: int | None
    """Frame number."""
    notifications: tuple[int, ...]
    """Frame numbers of the progress and log messages that came with the call."""
    is_slow: bool
    """Took more than twice the 95th percentile of its own method and name."""
    whole: int | None = None
    """The exchange this is a part of: a later round, a question to the client, a look at the task."""
    parts: tuple[int, ...] = ()
    """Numbers of the exchanges that belong to this one, in the order they began."""
    rounds: int = 1
    """Requests it took, all with the same `requestState` from one to the next."""
    waited: float = 0.0
    """Seconds of it in which the client was asked and had not answered yet."""
    questions: int = 0
    """Requests of the server to its client that came while it ran."""
    asked_at: float | None = None
    """Unix time in seconds since when the client has a question to answer; None when it has none."""
    replica: str = ""
    """Of several machines that a desk looks at, the one it went through."""

    def elapsed(self, now: float) -> float:
        """Seconds from request to response, or to `now` while pending."""
        return (now if self.ended is None else self.ended) - self.started

    def waiting(self, now: float) -> float:
        """Seconds waited for the client, up to `now` while it has a question."""
        return self.waited + (0.0 if self.asked_at is None else max(0.0, now - self.asked_at))

    @property
    def looks(self) -> int:
        """How often its task was looked at."""
        return len(self.parts) - (self.rounds - 1) - self.questions


def dropped(number: int) -> Exchange:
    """What stands for an exchange the index has dropped; the capture still has it."""
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
