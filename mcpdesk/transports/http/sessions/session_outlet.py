"""Outlet of a request in a session. Its messages are stored, and its call continues without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from aiohttp import web

from mcpdesk.protocol.event_store import EventStore, ResumableStream
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.event_stream import KEEP_ALIVE, MAX_TURN_S, EventStream, PostOutlet


class SessionOutlet(PostOutlet):
    """Sends messages over the connection that has the stream now, and stores them for a later connection."""

    def __init__(
        self,
        request: web.BaseRequest,
        may_stream: bool,
        record: Callable[[int, Direction, Sequence[bytes]], int],
        connection: int,
        store: EventStore[EventStream],
        on_lost: Callable[[], None],
        mark: str | None = None,
    ) -> None:
        """`on_lost` is called when the connection of the request is lost before the answer.

        `mark` identifies the call in the ids of its events.
        """
        super().__init__(request, may_stream, record, connection)
        self._on_lost = on_lost
        self._store = store
        self._mark = mark
        self._events: ResumableStream[EventStream] | None = None
        """Stored stream of the request, or None until the answer becomes a stream."""

    @property
    def is_resumable(self) -> bool:
        return self._events is not None and self._events.has_sent_id

    @property
    def sends_priming_event(self) -> bool:
        """True if the client accepts an event that has only an id."""
        return self.may_send and self._store.sends_priming_event

    async def drain(self) -> None:
        """Wait until the client has read enough, if it is connected."""
        self.flush()
        self.must_drain = False
        stream = self._events
        if stream is not None and stream.live is not None and stream.is_connected:
            await stream.live.drain()
        else:
            await asyncio.sleep(0)
        self._turn_end = monotonic() + MAX_TURN_S

    def keep_alive(self) -> None:
        """Begin a stream if the client accepts one and is connected, and write a comment."""
        if self.may_send and (self.stream is not None or self.request.transport is not None):
            self.flush()
            connected_stream = self._open_stream().live
            if connected_stream is not None:
                connected_stream.put(KEEP_ALIVE)

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection and continue the call. The client should reconnect after `retry_ms`.

        Return False if the client cannot reconnect, because it accepts no stream or uses an older revision.
        """
        if not (self.may_send and self._store.sends_priming_event):
            return False
        self.flush()
        stream = self._open_stream()
        connected_stream = stream.live
        if connected_stream is None or not stream.is_connected:
            return False
        connected_stream.put(b"retry: %d\n\n" % retry_ms)
        self.retry_s = retry_ms / 1000
        stream.release()
        if connected_stream is self.stream:
            await connected_stream.finish()
            if self.request.transport is not None:
                self.request.transport.close()
        return True

    async def cut_off(self, answer: bytes) -> bool:
        """Close the connection in the middle of an answer.

        A client that can resume the stream receives the answer later.
        """
        await super().cut_off(answer)
        if self._events is not None:
            self._events.put(answer)
        return True

    async def conclude(self, body: bytes | None) -> web.StreamResponse:
        """Send the last message on the connection that has the stream at present, and end the stream."""
        self.flush()
        events, stream = self._open_stream(), self.begin()
        if body is not None:
            events.put(body)
        events.end()
        connection_of(self.request).on_lost = None
        answer = await stream.finish()
        if stream.is_broken:  # the last message may be incomplete
            events.archive()
        return answer

    def begin(self) -> EventStream:
        """Return the stream on the connection of the request. Start the stream if necessary."""
        if self.stream is None:
            self.stream = EventStream(self.request, self.headers)
            self._events = events = self._store.open(self._mark)
            events.attach(self.stream)
            connection_of(self.request).on_lost = partial(self._lose, events, self.stream)
        return self.stream

    def _lose(self, events: ResumableStream[EventStream], stream: EventStream) -> None:
        events.detach(stream)
        self._on_lost()

    def _write(self, messages: Sequence[bytes]) -> None:
        put = self._open_stream().put
        for message in messages:
            put(message)

    def _open_stream(self) -> ResumableStream[EventStream]:
        self.begin()
        assert self._events is not None
        return self._events
