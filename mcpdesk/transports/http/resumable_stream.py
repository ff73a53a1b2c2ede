"""Streams that outlive their connections: numbered events, kept for a while and sent again.

An event id reads `<stream>:<number>`; streams are numbered within their session.
Source: MCP basic/transports of 2025-11-25.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from time import monotonic

from aiohttp import web

from mcpdesk.recorder.record import Direction
from mcpdesk.transports.http.event_stream import KEEP_ALIVE, TURN_S, EventStream, PostOutlet, event

_ID = re.compile(r"(\d{1,9}):(\d{1,9})")


class ResumableStream:
    """One stream of a session. `live` is the connection that carries it now; None while there is none.

    Thousands are kept when they are over, so they are made of little.
    """

    __slots__ = ("_done", "_last", "_sent", "_store", "is_over", "kept", "live", "number")

    def __init__(self, store: EventStore, number: int) -> None:
        self.number = number
        self.live: EventStream | None = None
        self.is_over = False
        self.kept: list[tuple[int, bytes]] = []
        self._store = store
        self._done: asyncio.Event | None = None
        """Set when the connection that carries it is to end; None while there is none."""
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

    def attach(self, live: EventStream, after: int | None = None) -> asyncio.Event:
        """Send on this connection from now on, beginning behind event `after`, or with what was never sent.

        Returns what is set when the connection is to end: the stream is over, let go, or carried by another.
        """
        self.release()
        start = self._sent if after is None else after
        if self._store.primes:
            live.put(b"id: %d:%d\ndata: \n\n" % (self.number, start))
        for number, piece in self.kept:
            if number > start:
                live.put(piece)
        self._sent = self._last
        done = asyncio.Event()
        if self.is_over:
            done.set()
        else:
            self.live, self._done = live, done
        return done

    def detach(self, live: EventStream) -> None:
        """A connection ended; another may have taken its place already."""
        if self.live is live:
            self.live = self._done = None

    def release(self) -> None:
        """End the connection; the stream stays open."""
        self.live = None
        if self._done is not None:
            self._done.set()
            self._done = None

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
        self._stores: OrderedDict[EventStore, None] = OrderedDict()

    def put(self, store: EventStore, size: int) -> None:
        """Count another event of a store. Its newest stays whatever its size."""
        self.size += size
        self._stores[store] = None
        self._stores.move_to_end(store)
        while self.size > self._most_bytes:
            oldest = next(iter(self._stores))
            if oldest is store:
                return
            oldest.drop()

    def take(self, store: EventStore, size: int) -> None:
        """Count bytes that a store dropped."""
        self.size -= size
        if not store.size:
            self._stores.pop(store, None)


class EventStore:
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
        self._order: deque[ResumableStream] = deque()
        self._streams: dict[int, ResumableStream] = {}
        self._first = self._opened = first

    def __len__(self) -> int:
        return len(self._order)

    @property
    def carried(self) -> int:
        """Return how many of its streams have a client connected."""
        # Asked by other threads, too.
        return sum(stream.is_carried for stream in list(self._streams.values()))

    def open(self) -> ResumableStream:
        """Open a new stream."""
        stream = ResumableStream(self, self._opened)
        self._streams[self._opened] = stream
        self._opened += 1
        return stream

    def find(self, last_event_id: str) -> tuple[ResumableStream, int] | None:
        """Return the stream of an event and the event's number; None when nothing is known of it."""
        found = _ID.fullmatch(last_event_id)
        stream = self._streams.get(int(found[1])) if found else None
        return None if found is None or stream is None else (stream, int(found[2]))

    def is_earlier(self, last_event_id: str) -> bool:
        """Whether an event is of a process that has ended, of which nothing is kept."""
        found = _ID.fullmatch(last_event_id)
        return found is not None and int(found[1]) < self._first

    def keep(self, stream: ResumableStream, number: int, piece: bytes) -> None:
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

    def tidy(self, stream: ResumableStream) -> None:
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


class SessionOutlet(PostOutlet):
    """The outlet of a request in a session: it keeps what it sends, and the call outlives its connection."""

    def __init__(
        self,
        request: web.BaseRequest,
        may_stream: bool,
        record: Callable[[int, Direction, Sequence[bytes]], int],
        connection: int,
        store: EventStore,
    ) -> None:
        super().__init__(request, may_stream, record, connection)
        self._store = store
        self._events: ResumableStream | None = None

    @property
    def primes(self) -> bool:
        """Whether the client understands an event id without a message."""
        return self.may_send and self._store.primes

    async def drain(self) -> None:
        """Wait until the client has read enough, if it is connected."""
        self.flush()
        self.must_drain = False
        events = self._events
        if events is not None and events.live is not None and events.is_carried:
            await events.live.drain()
        else:
            await asyncio.sleep(0)
        self._until = monotonic() + TURN_S

    def keep_alive(self) -> None:
        """Begin a stream if the client accepts one and is connected, and write a comment."""
        if self.may_send and (self.stream is not None or self.request.transport is not None):
            self.flush()
            live = self._opened().live
            if live is not None:
                live.put(KEEP_ALIVE)

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection and go on; the client is told to come back after `retry_ms`.

        False when it would not know how: it takes no stream, or speaks an older revision.
        """
        if not (self.may_send and self._store.primes):
            return False
        self.flush()
        events = self._opened()
        live = events.live
        if live is None or not events.is_carried:
            return False
        live.put(b"retry: %d\n\n" % retry_ms)
        events.release()
        if live is self.stream:
            await live.finish()
            if self.request.transport is not None:
                self.request.transport.close()
        return True

    async def cut_off(self, answer: bytes) -> bool:
        """Break the connection in the middle of an answer; who can resume the stream gets it then."""
        await super().cut_off(answer)
        if self._events is not None:
            self._events.put(answer)
        return True

    async def conclude(self, body: bytes | None) -> web.StreamResponse:
        """Send the last message wherever the stream is carried now, and end it."""
        self.flush()
        events, stream = self._opened(), self.begin()
        if body is not None:
            events.put(body)
        events.end()
        return await stream.finish()

    def begin(self) -> EventStream:
        """Return the stream over the request's own connection; begin it if need be."""
        if self.stream is None:
            self.stream = EventStream(self.request, self.headers)
            self._events = self._store.open()
            self._events.attach(self.stream)
        return self.stream

    def _write(self, messages: Sequence[bytes]) -> None:
        put = self._opened().put
        for message in messages:
            put(message)

    def _opened(self) -> ResumableStream:
        self.begin()
        assert self._events is not None
        return self._events
