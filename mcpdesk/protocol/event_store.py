"""Resumable streams: numbered events that are kept for a time and sent again after a reconnect.

An event id is `<stream>:<number>`. Streams are numbered within their session. If several processes serve a
session, an id has a third part, the mark, with which each of these processes can continue the stream. The
mark of a stream that answers a call is the encoded request id of the call. The mark of any other stream is
the client's position on the event bus. Source: MCP basic/transports of 2025-11-25.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mcpdesk.protocol.framing import event
from mcpdesk.protocol.jsonrpc import Id

MAX_EVENTS = 1000
MAX_SESSION_BYTES = 1 << 20
"""Maximum size in bytes of the events kept for each session. The oldest events are dropped first."""
TOTAL_FACTOR = 64
"""Maximum size of the events of all sessions together, as a multiple of `MAX_SESSION_BYTES`."""
PRIMING_REVISION = "2025-11-25"
"""Revision whose clients understand an event that has only an id."""
MAX_MARK_LENGTH = 200
"""Maximum length in characters of a call's mark. A longer mark is replaced by an empty one."""
POSITION_MARK = "h"
"""First character of a mark with a position on the event bus. Marks of calls begin with other characters."""
_POSITION = re.compile(rf"{POSITION_MARK}(\d{{1,15}}-\d{{1,15}})-(\d{{1,15}})-(\w{{1,32}})")
_ID = re.compile(r"(\d{1,9}):(\d{1,9})(?::([\w=-]{0,200}))?")


class EventPosition(NamedTuple):
    """Parsed event id."""

    stream: int
    number: int
    mark: str | None
    """Part after the second colon, or None."""

    @property
    def call(self) -> str | None:
        """Mark of a call, as returned by `call_mark`, or None if the stream answers no call."""
        return None if self.mark is None or self.mark.startswith(POSITION_MARK) else self.mark

    @property
    def bus_position(self) -> BusPosition | None:
        """Position of the client on the event bus, or None if the id has none."""
        match = _POSITION.fullmatch(self.mark or "")
        return BusPosition(match[1], int(match[2]), match[3]) if match else None


class BusPosition(NamedTuple):
    """Position of one process on the event bus."""

    last: str
    """Id of the latest event that the process received, `<milliseconds>-<number>`."""
    sent: int
    """Number of events that the process had sent itself."""
    process: str
    """Mark of the process."""

    @property
    def mark(self) -> str:
        """Position in the form that event ids contain."""
        return f"{POSITION_MARK}{self.last}-{self.sent}-{self.process}"


def parse_event_id(event_id: str) -> EventPosition | None:
    """Return the parts of an event id, or None if it does not have our format."""
    match = _ID.fullmatch(event_id)
    return EventPosition(int(match[1]), int(match[2]), match[3]) if match else None


def position_of(encoded_event: bytes) -> EventPosition | None:
    """Return the parsed id of an encoded event, or None if it does not have our format."""
    return parse_event_id(encoded_event.partition(b"\n")[0].removeprefix(b"id: ").decode())


def call_mark(identifier: Id | None) -> str:
    """Return the mark of a call, which encodes its request id, or "" if the call has no id or the mark is too
    long.
    """
    if isinstance(identifier, str):
        encoded = "s" + urlsafe_b64encode(identifier.encode("utf-8", "surrogatepass")).decode()
    else:
        encoded = str(identifier) if isinstance(identifier, int) else ""
    return encoded if len(encoded) <= MAX_MARK_LENGTH else ""


def marked_call(mark: str) -> Id | None:
    """Return the request id in the mark of a call, or None if the mark has none."""
    try:
        if mark.startswith("s"):
            return urlsafe_b64decode(mark[1:]).decode("utf-8", "surrogatepass")
        return int(mark)
    except ValueError:
        return None


def numbered_event(stream: int, number: int, mark: str | None, message: bytes) -> bytes:
    """Return a message as an event with its id. An empty message gives an event with only an id."""
    fields = event(message) if message else b"data: \n\n"
    if mark is None:
        return b"id: %d:%d\n%b" % (stream, number, fields)
    return b"id: %d:%d:%b\n%b" % (stream, number, mark.encode(), fields)


class Carrier(Protocol):
    """Connection that sends the events of a stream."""

    @property
    def is_broken(self) -> bool:
        """True if the peer has disconnected."""

    def put(self, encoded_event: bytes) -> None:
        """Queue one event."""


C = TypeVar("C", bound=Carrier)
T = TypeVar("T", bound=Carrier, contravariant=True)


class Resumable(Protocol[T]):
    """Stream that a client can resume, wherever its events are stored."""

    def attach(self, connection: T, disconnect: Callable[[], object], after: int | None) -> None:
        """Send events on this connection from now on, beginning after event `after`.

        Without `after`, begin with events that were never sent.

        `disconnect` is called when the connection should end, because the stream is complete, closed for now,
        or continued on another connection.
        """

    def detach(self, connection: T) -> None:
        """Handle the end of a connection. Do nothing if another connection has already replaced it."""


class ResumableStream(Generic[C]):
    """One stream of a session. Thousands of finished streams are kept, so a stream must be small."""

    __slots__ = (
        "_disconnect",
        "_last_sent",
        "_mark",
        "_store",
        "archived",
        "events",
        "is_over",
        "last",
        "live",
        "number",
    )  # fmt: skip

    def __init__(self, store: EventStore[C], number: int, mark: str | None = None) -> None:
        """`mark` identifies the call that the stream answers."""
        self.number = number
        self.archived = -1
        """Number of the newest event in the archive, or -1 if the archive does not know the stream."""
        self.last = 0
        """Number of the newest event."""
        self.live: C | None = None
        """Connection of the stream, or None."""
        self.is_over = False
        """True if no more events will follow."""
        self.events: list[tuple[int, bytes]] = []
        """Kept events with their numbers, oldest first."""
        self._store = store
        self._disconnect: Callable[[], object] | None = None
        """Function that ends the stream's connection, or None if the stream has no connection."""
        self._mark = mark
        self._last_sent = 0
        """Number of the newest event that was sent to a client."""

    @property
    def is_connected(self) -> bool:
        """True if a client is connected to the stream."""
        return self.live is not None and not self.live.is_broken

    @property
    def has_sent_id(self) -> bool:
        """True if a client has received the id of an event.

        With this id, the client can resume the stream.
        """
        return self._store.sends_priming_event or self._last_sent > 0

    def put(self, message: bytes) -> None:
        """Number and keep one message, and send it if a client is connected."""
        self.last += 1
        encoded_event = self._numbered(self.last, message)
        self._store.add(self, self.last, encoded_event)
        if self.live is not None and self.is_connected:
            self.live.put(encoded_event)
            self._last_sent = self.last
            if self._store.is_leaving:
                self.archive()
        else:
            self.archive()

    def attach(
        self, connection: C, disconnect: Callable[[], object] = lambda: None, after: int | None = None
    ) -> None:
        """Send events on this connection, beginning after event `after`.

        Without `after`, begin with events that were never sent. `disconnect` is called when the connection
        should end, because the stream is complete, closed for now, or continued on another connection.
        """
        self.release()
        start = self._last_sent if after is None else after
        if self._store.sends_priming_event:
            connection.put(self._numbered(start, b""))
        for number, encoded_event in self.events:
            if number > start:
                connection.put(encoded_event)
        self._last_sent = self.last
        if self.is_over:
            disconnect()
        else:
            self.live, self._disconnect = connection, disconnect

    def _numbered(self, number: int, message: bytes) -> bytes:
        mark = self._mark
        if mark is None and (position := self._store.bus_position()) is not None:
            mark = position.mark
        return numbered_event(self.number, number, mark, message)

    def detach(self, connection: C) -> None:
        """Handle the end of a connection. Do nothing if another connection has already replaced it."""
        if self.live is connection:
            self.live = self._disconnect = None
            self.archive()

    def archive(self) -> None:
        """Write the kept events to the archive, where other processes can read them."""
        if self._store.archive is not None:
            self._store.archive(self)

    def release(self) -> None:
        """End the connection. The stream remains open."""
        disconnect, self.live, self._disconnect = self._disconnect, None, None
        if disconnect is not None:
            disconnect()

    def end(self) -> None:
        """Mark the stream as complete."""
        self.is_over = True
        if self.archived >= 0 or self._store.is_leaving or not self.is_connected:
            self.archive()
        self.release()
        self._store.remove_if_done(self)


class SharedEventBudget:
    """Limit of the bytes that all sessions keep. The store that was idle longest is trimmed first."""

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        """Size in bytes of the events that all stores keep."""
        self._max_bytes = max_bytes
        self._stores: OrderedDict[EventStore[Any], None] = OrderedDict()
        """Stores with events. The store that was idle longest is the first."""

    def put(self, store: EventStore[Any], size: int) -> None:
        """Count another event of a store, and trim stores if necessary.

        The newest event of this store is always kept.
        """
        self.size += size
        self._stores[store] = None
        self._stores.move_to_end(store)
        while self.size > self._max_bytes:
            oldest = next(iter(self._stores))
            if oldest is store:
                return
            oldest.drop()

    def release(self, store: EventStore[Any], size: int) -> None:
        """Subtract bytes that a store dropped."""
        self.size -= size
        if not store.size:
            self._stores.pop(store, None)


class EventStore(Generic[C]):
    """Events of one session that a client may request again, limited in bytes and number.

    The newest event is kept even if it is larger than the limit, unless the budget of all sessions drops it.
    If `sends_priming_event` is true, clients receive an id before the first event.
    """

    def __init__(
        self, max_bytes: int, max_events: int, event_budget: SharedEventBudget, first_number: int = 0
    ) -> None:
        """`first_number` is the number of the first stream. Lower numbers belong to processes that have
        ended.
        """
        self.sends_priming_event = False
        self.archive: Callable[[ResumableStream[C]], object] | None = None
        """Function that schedules a write of a stream's events for other processes, or None if no other
        process serves the session.
        """
        self.bus_position: Callable[[], BusPosition | None] = lambda: None
        """Function that returns the client's position on the event bus, or None if unknown.

        The position is the mark of streams that answer no call.
        """
        self.is_leaving = False
        """True if every event is archived, because this process is ending."""
        self._is_closed = False
        self._event_budget = event_budget
        self.size = 0
        """Size of the kept events in bytes."""
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._streams_of_events: deque[ResumableStream[C]] = deque()
        """Stream of each kept event, oldest event first."""
        self._streams: dict[int, ResumableStream[C]] = {}
        self._first_number = self._next_number = first_number

    def __len__(self) -> int:
        return len(self._streams_of_events)

    @property
    def connected_streams(self) -> int:
        """Number of streams with a connected client."""
        # The list is a copy, because other threads also read this property.
        return sum(stream.is_connected for stream in list(self._streams.values()))

    def open(self, mark: str | None = None) -> ResumableStream[C]:
        """Open a new stream. `mark` identifies the call that the stream answers."""
        stream = ResumableStream[C](self, self._next_number, mark)
        self._streams[self._next_number] = stream
        self._next_number += 1
        return stream

    def find(self, last_event_id: str) -> tuple[ResumableStream[C], int] | None:
        """Return the stream of an event and the event's number, or None if the stream is unknown."""
        position = parse_event_id(last_event_id)
        stream = None if position is None else self._streams.get(position.stream)
        return None if position is None or stream is None else (stream, position.number)

    def is_earlier(self, last_event_id: str) -> bool:
        """Return True if an event belongs to an ended process, whose events are lost."""
        position = parse_event_id(last_event_id)
        return position is not None and position.stream < self._first_number

    @property
    def archived(self) -> list[int]:
        """Numbers of the archived streams."""
        return [stream.number for stream in self._streams.values() if stream.archived >= 0]

    def leave(self) -> None:
        """Archive all present and future events, because this process ends and another process continues the
        session.
        """
        self.is_leaving = True
        for stream in list(self._streams.values()):
            if stream.events:
                stream.archive()

    def add(self, stream: ResumableStream[C], number: int, encoded_event: bytes) -> None:
        """Keep one event, unless the session has ended."""
        if self._is_closed:
            return
        stream.events.append((number, encoded_event))
        self._streams_of_events.append(stream)
        self.size += len(encoded_event)
        self._event_budget.put(self, len(encoded_event))
        while len(self._streams_of_events) > 1 and (
            self.size > self._max_bytes or len(self._streams_of_events) > self._max_events
        ):
            self.drop()

    def drop(self) -> None:
        """Drop the oldest event."""
        stream = self._streams_of_events.popleft()
        size = len(stream.events.pop(0)[1])
        self.size -= size
        self._event_budget.release(self, size)
        if stream.archived >= 0:
            stream.archive()
        self.remove_if_done(stream)

    def remove_if_done(self, stream: ResumableStream[C]) -> None:
        """Remove a stream that is complete and has no kept events."""
        if stream.is_over and not stream.events:
            self._streams.pop(stream.number, None)

    def close(self) -> None:
        """End all connections and drop all events."""
        self._is_closed = True
        for stream in list(self._streams.values()):
            stream.release()
        self._streams.clear()
        self._streams_of_events.clear()
        size, self.size = self.size, 0
        self._event_budget.release(self, size)
