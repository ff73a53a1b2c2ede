"""Streams of HTTP sessions, which clients open with GET."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from aiohttp import web

from mcpdesk.auth.principal import Principal, until_expired
from mcpdesk.protocol.event_store import Resumable
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.event_stream import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, wait
from mcpdesk.transports.http.sessions.http_sessions import HttpSession

STREAM_NOT_STORED = "Last-Event-ID: that stream is no longer stored"


class Continuation(NamedTuple):
    """Stream that began in another process and continues in this one."""

    missed_events: Collection[bytes]
    """Events that the other process did not send. They are sent first."""
    catch_up: Callable[[], Awaitable[bool]]
    """Sends the events that the client missed. Returns False if the client must reconnect."""
    note_position: Callable[[], Awaitable[None]]
    """Records that the client has received all events so far."""


async def stream_events(
    request: web.BaseRequest,
    session: HttpSession,
    caller: Principal,
    events: Resumable[EventStream],
    last_position: int | None,
    continuation: Continuation | None = None,
) -> web.StreamResponse:
    """Send the events after `last_position`, until the stream, the connection or the token ends."""
    stream = EventStream(request)
    for piece in continuation.missed_events if continuation is not None else ():
        stream.put(piece)
    end_event = asyncio.Event()
    events.attach(stream, end_event.set, last_position)
    connection = connection_of(request)
    connection.on_lost = end_event.set
    try:
        if continuation is not None and not await continuation.catch_up():
            end_event.set()
        async with until_expired(caller):
            while not end_event.is_set() and not stream.is_broken:
                stream.put(KEEP_ALIVE)
                await wait(end_event, KEEP_ALIVE_S)
                if continuation is not None:
                    await continuation.note_position()
    finally:
        connection.on_lost = None
        events.detach(stream)
        session.touch()
        session.connection_lost()
    return await stream.finish()
