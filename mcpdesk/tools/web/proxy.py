"""A proxy for a browser of ours: whatever a page asks for goes through here, and addresses are checked.

It listens on this machine for as long as one page is drawn. Encrypted traffic is passed on as it is; of plain
requests one a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

from mcpdesk.errors import HandlerError
from mcpdesk.tools.web.addresses import resolve

HEAD_BYTES = 65_536
MOST_BYTES = 100 << 20
"""Everything one page may load."""
CONNECT_S = 10.0
"""For all addresses of a host together."""
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
UNREACHABLE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"
OF_THE_HOP = (b"proxy-", b"connection:", b"keep-alive:")
"""How header lines begin that are for a proxy."""


@asynccontextmanager
async def guarding_proxy(*, private: bool, local: bool = True) -> AsyncIterator[Proxy]:
    """A proxy, for the block. What it reaches is what `resolve` allows."""
    guard = Proxy(private, local)
    server = await asyncio.start_server(guard.serve, "127.0.0.1", 0, limit=HEAD_BYTES)
    guard.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield guard
    finally:
        server.close()
        await guard.close()


class Proxy:
    """One page's proxy, at `url`."""

    def __init__(self, private: bool, local: bool) -> None:
        self.url = ""
        self.abandoned = 0
        """Requests the browser gave up before they were answered."""
        self._waiting: set[object] = set()
        """Connections on which the page waits for an answer, or the rest of one."""
        self._private, self._local = private, local
        self._left = MOST_BYTES
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """Requests of the page that have no whole answer; of encrypted ones, none at all."""
        return len(self._waiting)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the browser."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            pass  # by `close`: the loop of Python 3.11 complains of connections that end cancelled
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """End every connection."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        method, _, target = line.decode("latin-1").partition(" ")
        target = target.rpartition(" ")[0]
        is_tunnel = method == "CONNECT"
        place = urlsplit(f"//{target}" if is_tunnel else target)
        try:
            host, port = place.hostname or "", place.port or (443 if is_tunnel else 80)
            addresses = await resolve(host, port, private=self._private, local=self._local)
        except (HandlerError, ValueError):
            writer.write(REFUSED)
            return
        try:
            far_reader, far_writer = await _connected(addresses, port)
        except OSError:
            writer.write(UNREACHABLE)
            return
        asked: Callable[[], None] = partial(self._waiting.add, writer)
        answered: Callable[[], None] = partial(self._waiting.discard, writer)

        def left() -> None:
            self.abandoned += writer in self._waiting

        try:
            if is_tunnel:
                writer.write(CONNECTED)
            else:
                asked()
                far_writer.write(_passed_on(method, place.path, place.query, rest))
            await asyncio.gather(
                self._pass(reader, far_writer, asked if is_tunnel else None, left),
                self._pass(far_reader, writer, answered if is_tunnel else None, answered),
            )
        finally:
            answered()
            far_writer.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passed: Callable[[], None] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        while data := await reader.read(HEAD_BYTES):
            if passed is not None:
                passed()
            self._left -= len(data)
            if self._left < 0:
                return
            writer.write(data)
            await writer.drain()
        if ended is not None:
            ended()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _connected(
    addresses: Sequence[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of a host's addresses that takes one. Raises: OSError."""
    failure = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S / len(addresses)):
                return await asyncio.open_connection(address, port)
        except OSError as error:
            failure = error
    raise failure


def _passed_on(method: str, path: str, query: str, rest: bytes) -> bytes:
    """A request as its server wants it: the path alone, and the connection not kept."""
    lines = [line for line in rest.split(b"\r\n") if line and not line.lower().startswith(OF_THE_HOP)]
    target = f"{path or '/'}{'?' if query else ''}{query}".encode("latin-1")
    first = b"%b %b HTTP/1.1" % (method.encode("latin-1"), target)
    return b"\r\n".join([first, *lines, b"Connection: close", b"", b""])
