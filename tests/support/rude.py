"""Raw connections, for malicious clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.support.patience import within
from tests.support.site import Served

HEAD = b"POST /mcp/sample HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A raw connection."""
    place = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1 << 16)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def all_of(reader: asyncio.StreamReader) -> bytes:
    """All bytes up to the end of the connection."""
    async with within():
        with suppress(ConnectionError):
            return await reader.read()
    return b""


def posted(body: bytes, headers: bytes = b"") -> bytes:
    """Bytes of a POST request."""
    return HEAD + headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def turn() -> None:
    """Let the loop run due callbacks."""
    await asyncio.sleep(0.01)
