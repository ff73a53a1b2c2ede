"""Streams that outlive their connections: numbered events, kept for a while and sent again.

An event id reads `<stream>:<number>`; streams are numbered within their session. Where several machines
serve a session, ids of a stream that answers a call name it too, `<stream>:<number>:<call>`, so that any of
them can say what became of it. Those of a standing stream say how much of what was told on all machines its
client has heard of, so that any of them can go on behind it. Source: MCP basic/transports of 2025-11-25.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mcpdesk.protocol.framing import event
from mcpdesk.protocol.jsonrpc import Id

KEPT_EVENTS = 1000
KEPT_BYTES = 1 << 20
"""Bytes of events kept for one session's clients that reconnect; the oldest are dropped first."""
SHARES = 64
"""All sessions together may keep so many times the bytes of one."""
PRIMED = "2025-11-25"
"""The revision whose clients understand an event that has only an id."""
LONGEST_MARK = 200
"""Characters of an event id that may name a call; a call with a longer id is not named."""
HEARD = "h"
"""How the mark in the ids of a standing stream begins; that of a call begins otherwise."""
_HEARD = re.compile(rf"{HEARD}(\d{{1,15}}-\d{{1,15}})-(\d{{1,15}})-(\w{{1,32}})")
_ID = re.compile(r"(\d{1,9}):(\d{1,9})(?::([\w=-]{0,200}))?")


class EventPlace(NamedTuple):
    """What an event id says."""

    stream: int
    number: int
    mark: str | None
    """What stands behind them; None: nothing."""

    @property
    def call(self) -> str | None:
        """What `call_mark` made of a call's id; None for a stream that answers no call."""
        return None if self.mark is None or self.mark.startswith(HEARD) else self.mark

    @property
    def heard(self) -> Heard | None:
        """How much its client had heard of; None: that is not said."""
        found = _HEARD.fullmatch(self.mark or "")
        return Heard(found[1], int(found[2]), found[3]) if found else None


class Heard(NamedTuple):
    """How much of what was told on all machines has been heard on one of them."""

    last: str
    """The latest event of others, `<milliseconds>-<number>`."""
    told: int
    """How many events it had told itself."""
    machine: str

    @property
    def mark(self) -> str:
        """As it stands in event ids."""
        return f"{HEARD}{self.last}-{self.told}-{self.machine}"


def event_place(event_id: str) -> EventPlace | None:
    """Read an event id; None for what is none of ours."""
    found = _ID.fullmatch(event_id)
    return EventPlace(int(found[1]), int(found[2]), found[3]) if found else None


def place_of(piece: bytes) -> EventPlace | None:
    """What the id of an event says that is kept."""
    return event_place(piece.partition(b"\n")[0].removeprefix(b"id: ").decode())


def call_mark(identifier: Id | None) -> str:
    """The id of a request as it may stand in event ids; empty for none, and for one that is too long."""
    if isinstance(identifier, str):
        encoded = "s" + urlsafe_b64encode(identifier.encode("utf-8", "surrogatepass")).decode()
    else:
        encoded = str(identifier) if isinstance(identifier, int) else ""
    return encoded if len(encoded) <= LONGEST_MARK else ""


def marked_call(mark: str) -> Id | None:
    """The id of the request that event ids name; None when they name none."""
    try:
        if mark.startswith("s"):
            return urlsafe_b64decode(mark[1:]).decode("utf-8", "surrogatepass")
        return int(mark)
    except ValueError:
        return None


def numbered(stream: int, number: int, mark: str | None, message: bytes) -> bytes:
    """A message as an event with its id; an empty one only tells the id."""
    piece = event(message) if message else b"data: \n\n"
    if mark is None:
        return b"id: %d:%d\n%b" % (stream, number, piece)
    return b"id: %d:%d:%b\n%b" % (stream, number, mark.encode(), piece)


class Carrier(Protocol):
    """A connection that carries a stream."""

    @property
    def is_broken(self) -> bool:
        """Whether the peer is gone."""

    def put(self, piece: bytes) -> None:
        """Queue one piece."""


C = TypeVar("C", bound=Carrier)
T = TypeVar("T", bound=Carrier, contravariant=True)


class Resumable(Protocol[T]):
    """A stream that a client comes back to, wherever its events are kept."""

    def attach(self, live: T, let_go: Callable[[], object], after: int | None) -> None:
        """Send on this connection from now on, beginning behind event `after`.

        `let_go` is called when it is to end: the stream is over, closed for now, or carried by another.
        """

    def detach(self, live: T) -> None:
        """A connection ended; another may have taken its place already."""


class ResumableStream(Generic[C]):
    """One stream of a session. `live` is the connection that carries it now; None while there is none.

    Thousands are kept when they are over, so they are made of little.
    """

    __slots__ = (
        "_let_go", "_mark", "_sent", "_store", "archived", "is_over", "kept", "last", "live", "number",
    )  # fmt: skip

    def __init__(self, store: EventStore[C], number: int, mark: str | None = None) -> None:
        """`mark` names the call that it answers."""
        self.number = number
        self.archived = -1
        """The newest event that the archive has; -1: it knows nothing of this stream."""
        self.last = 0
        """The number of the newest event."""
        self.live: C | None = None
        self.is_over = False
        self.kept: list[tuple[int, bytes]] = []
        self._store = store
        self._let_go: Callable[[], object] | None = None
        """Ends the connection that carries it; None while there is none."""
        self._mark = mark
        self._sent = 0

    @property
    def is_carried(self) -> bool:
        """Whether a client is connected to it."""
        return self.live is not None and not self.live.is_broken

    def put(self, message: bytes) -> None:
        """Number and keep one message, and send it when a client is connected."""
        self.last += 1
        piece = self._numbered(self.last, message)
        self._store.keep(self, self.last, piece)
        if self.live is not None and self.is_carried:
            self.live.put(piece)
            self._sent = self.last
            if self._store.is_leaving:
                self.archive()
        else:
            self.archive()

    def attach(self, live: C, let_go: Callable[[], object] = lambda: None, after: int | None = None) -> None:
        """Send on this connection from now on, beginning behind event `after`, or with what was never sent.

        `let_go` is called when it is to end: the stream is over, closed for now, or carried by another.
        """
        self.release()
        start = self._sent if after is None else after
        if self._store.primes:
            live.put(self._numbered(start, b""))
        for number, piece in self.kept:
            if number > start:
                live.put(piece)
        self._sent = self.last
        if self.is_over:
            let_go()
        else:
            self.live, self._let_go = live, let_go

    def _numbered(self, number: int, message: bytes) -> bytes:
        mark = self._mark
        if mark is None and (heard := self._store.heard()) is not None:
            mark = heard.mark
        return numbered(self.number, number, mark, message)

    def detach(self, live: C) -> None:
        """A connection ended; another may have taken its place already."""
        if self.live is live:
            self.live = self._let_go = None
            self.archive()

    def archive(self) -> None:
        """Have written what is kept, where other machines find it when this one is gone."""
        if self._store.archive is not None:
            self._store.archive(self)

    def release(self) -> None:
        """End the connection; the stream stays open."""
        let_go, self.live, self._let_go = self._let_go, None, None
        if let_go is not None:
            let_go()

    def end(self) -> None:
        """Mark the stream as complete."""
        self.is_over = True
        if self.archived >= 0 or self._store.is_leaving or not self.is_carried:
            self.archive()
        self.release()
        self._store.tidy(self)


class SharedEventBudget:
    """Bytes of events that all sessions keep together. The store that was quiet for longest is cut first."""

    def __init__(self, most_bytes: int) -> None:
        self.size = 0
        self._most_bytes = most_bytes
        self._stores: OrderedDict[EventStore[Any], None] = OrderedDict()

    def put(self, store: EventStore[Any], size: int) -> None:
        """Count another event of a store. Its newest stays whatever its size."""
        self.size += size
        self._stores[store] = None
        self._stores.move_to_end(store)
        while self.size > self._most_bytes:
            oldest = next(iter(self._stores))
            if oldest is store:
                return
            oldest.drop()

    def take(self, store: EventStore[Any], size: int) -> None:
        """Count bytes that a store dropped."""
        self.size -= size
        if not store.size:
            self._stores.pop(store, None)


class EventStore(Generic[C]):
    """The events of one session that a client may ask for again, limited in bytes and number.

    The newest event stays whatever its size, until the budget of all sessions cuts it.
    `primes`: clients get an id before anything happened.
    """

    def __init__(
        self, most_bytes: int, most_events: int, event_budget: SharedEventBudget, first: int = 0
    ) -> None:
        """`first` is the number of its first stream; lower ones were of processes that have ended."""
        self.primes = False
        self.archive: Callable[[ResumableStream[C]], object] | None = None
        """Writes soon what is kept of a stream, for other machines; None: nobody else serves the session."""
        self.heard: Callable[[], Heard | None] = lambda: None
        """Returns how much clients of streams that answer no call have heard of; None: that is not known."""
        self.is_leaving = False
        """Whether everything is written, as this process ends."""
        self._is_closed = False
        self._event_budget = event_budget
        self.size = 0
        self._most_bytes = most_bytes
        self._most_events = most_events
        self._order: deque[ResumableStream[C]] = deque()
        self._streams: dict[int, ResumableStream[C]] = {}
        self._first = self._opened = first

    def __len__(self) -> int:
        return len(self._order)

    @property
    def carried(self) -> int:
        """Return how many of its streams have a client connected."""
        # Asked by other threads, too.
        return sum(stream.is_carried for stream in list(self._streams.values()))

    def open(self, mark: str | None = None) -> ResumableStream[C]:
        """Open a new stream; `mark` names the call that it answers."""
        stream = ResumableStream[C](self, self._opened, mark)
        self._streams[self._opened] = stream
        self._opened += 1
        return stream

    def find(self, last_event_id: str) -> tuple[ResumableStream[C], int] | None:
        """Return the stream of an event and the event's number; None when nothing is known of it."""
        place = event_place(last_event_id)
        stream = None if place is None else self._streams.get(place.stream)
        return None if place is None or stream is None else (stream, place.number)

    def is_earlier(self, last_event_id: str) -> bool:
        """Whether an event is of a process that has ended, of which nothing is kept."""
        place = event_place(last_event_id)
        return place is not None and place.stream < self._first

    @property
    def archived(self) -> list[int]:
        """The numbers of the streams of which something was written."""
        return [stream.number for stream in self._streams.values() if stream.archived >= 0]

    def leave(self) -> None:
        """Have everything written that is kept and that follows: this process ends, others go on."""
        self.is_leaving = True
        for stream in list(self._streams.values()):
            if stream.kept:
                stream.archive()

    def keep(self, stream: ResumableStream[C], number: int, piece: bytes) -> None:
        """Keep one event, unless the session is over."""
        if self._is_closed:
            return
        stream.kept.append((number, piece))
        self._order.append(stream)
        self.size += len(piece)
        self._event_budget.put(self, len(piece))
        while len(self._order) > 1 and (self.size > self._most_bytes or len(self._order) > self._most_events):
            self.drop()

    def drop(self) -> None:
        """Forget the oldest event."""
        oldest = self._order.popleft()
        size = len(oldest.kept.pop(0)[1])
        self.size -= size
        self._event_budget.take(self, size)
        if oldest.archived >= 0:
            oldest.archive()
        self.tidy(oldest)

    def tidy(self, stream: ResumableStream[C]) -> None:
        """Remove a stream that is complete and of which no event is kept."""
        if stream.is_over and not stream.kept:
            self._streams.pop(stream.number, None)

    def close(self) -> None:
        """End every connection and keep nothing."""
        self._is_closed = True
        for stream in list(self._streams.values()):
            stream.release()
        self._streams.clear()
        self._order.clear()
        size, self.size = self.size, 0
        self._event_budget.take(self, size)
