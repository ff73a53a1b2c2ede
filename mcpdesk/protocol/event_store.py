"""Streams that outlive their connections: numbered events, kept for a while and sent again.

An event id reads `<stream>:<number>`; streams are numbered within their session.
Source: MCP basic/transports of 2025-11-25.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from mcpdesk.protocol.framing import event

KEPT_EVENTS = 1000
KEPT_BYTES = 1 << 20
"""Bytes of events kept for one session's clients that reconnect; the oldest are dropped first."""
SHARES = 64
"""All sessions together may keep so many times the bytes of one."""
PRIMED = "2025-11-25"
"""The revision whose clients understand an event that has only an id."""
_ID = re.compile(r"(\d{1,9}):(\d{1,9})")


def stream_number(event_id: str) -> int | None:
    """The number of the stream of an event; None for what is no id of ours."""
    found = _ID.fullmatch(event_id)
    return int(found[1]) if found else None


class Carrier(Protocol):
    """A connection that carries a stream."""

    @property
    def is_broken(self) -> bool:
        """Whether the peer is gone."""

    def put(self, piece: bytes) -> None:
        """Queue one piece."""


C = TypeVar("C", bound=Carrier)


class ResumableStream(Generic[C]):
    """One stream of a session. `live` is the connection that carries it now; None while there is none.

    Thousands are kept when they are over, so they are made of little.
    """

    __slots__ = ("_last", "_let_go", "_sent", "_store", "is_over", "kept", "live", "number")

    def __init__(self, store: EventStore[C], number: int) -> None:
        self.number = number
        self.live: C | None = None
        self.is_over = False
        self.kept: list[tuple[int, bytes]] = []
        self._store = store
        self._let_go: Callable[[], object] | None = None
        """Ends the connection that carries it; None while there is none."""
        self._last = 0
        self._sent = 0

    @property
    def is_carried(self) -> bool:
        """Whether a client is connected to it."""
        return self.live is not None and not self.live.is_broken

    def put(self, message: bytes) -> None:
        """Number and keep one message, and send it when a client is connected."""
        self._last += 1
        piece = b"id: %d:%d\n%b" % (self.number, self._last, event(message))
        self._store.keep(self, self._last, piece)
        if self.live is not None and self.is_carried:
            self.live.put(piece)
            self._sent = self._last

    def attach(self, live: C, let_go: Callable[[], object] = lambda: None, after: int | None = None) -> None:
        """Send on this connection from now on, beginning behind event `after`, or with what was never sent.

        `let_go` is called when it is to end: the stream is over, closed for now, or carried by another.
        """
        self.release()
        start = self._sent if after is None else after
        if self._store.primes:
            live.put(b"id: %d:%d\ndata: \n\n" % (self.number, start))
        for number, piece in self.kept:
            if number > start:
                live.put(piece)
        self._sent = self._last
        if self.is_over:
            let_go()
        else:
            self.live, self._let_go = live, let_go

    def detach(self, live: C) -> None:
        """A connection ended; another may have taken its place already."""
        if self.live is live:
            self.live = self._let_go = None

    def release(self) -> None:
        """End the connection; the stream stays open."""
        let_go, self.live, self._let_go = self._let_go, None, None
        if let_go is not None:
            let_go()

    def end(self) -> None:
        """Mark the stream as complete."""
        self.is_over = True
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

    def open(self) -> ResumableStream[C]:
        """Open a new stream."""
        stream = ResumableStream[C](self, self._opened)
        self._streams[self._opened] = stream
        self._opened += 1
        return stream

    def find(self, last_event_id: str) -> tuple[ResumableStream[C], int] | None:
        """Return the stream of an event and the event's number; None when nothing is known of it."""
        found = _ID.fullmatch(last_event_id)
        stream = self._streams.get(int(found[1])) if found else None
        return None if found is None or stream is None else (stream, int(found[2]))

    def is_earlier(self, last_event_id: str) -> bool:
        """Whether an event is of a process that has ended, of which nothing is kept."""
        found = _ID.fullmatch(last_event_id)
        return found is not None and int(found[1]) < self._first

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
