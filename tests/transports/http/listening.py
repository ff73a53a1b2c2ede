"""A listener with one handler, and a client on a separate socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.connections import HttpConnections
from tests.support.rude import connected_socket

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def listening(
    handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], patience_s: float = 1.0
) -> AsyncIterator[Connect]:
    """Listen with this handler; yield a function that opens a connection, which is closed at the end."""
    listener, writers = HttpConnections(handler, Rules), list[asyncio.StreamWriter]()
    server = await asyncio.get_running_loop().create_server(listener, "127.0.0.1", 0)

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            sock=connected_socket(*server.sockets[0].getsockname())
        )
        writers.append(writer)
        return reader, writer

    try:
        yield connect
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await listener.close(patience_s)
