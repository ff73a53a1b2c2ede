"""Raw connections, for malicious clients."""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.support.patience import within
from tests.support.site import Served

HEAD = b"POST /mcp/sample HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"

KEY = base64.b64encode(b"sixteen bytes!!!")
UPGRADE = (
    b"GET /mcp/sample/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n"
)
TEXT, BINARY, CLOSE, PING, CONTINUED = 0x81, 0x82, 0x88, 0x89, 0x80
BEGIN, MIDDLE = 0x01, 0x00
RECEIVE_BYTES = 64 << 10
"""Bytes that the system takes for a `connected_socket`. By itself it may let this grow to many MiB."""


def connected_socket(host: str, port: int) -> socket.socket:
    """A connected socket for which the system takes few bytes before they are read."""
    made = socket.socket(socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    made.connect((host, port))
    made.setblocking(False)
    return made


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A raw connection."""
    parts = urlsplit(served.url)
    sock = connected_socket(str(parts.hostname), int(parts.port or 0))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 16)
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


def frame(kind: int, data: bytes = b"", masked: bool = True) -> bytes:
    """One WebSocket frame."""
    bit = 0x80 if masked else 0
    size = len(data)
    if size < 126:
        head = bytes([kind, bit | size])
    elif size < 1 << 16:
        head = bytes([kind, bit | 126]) + struct.pack("!H", size)
    else:
        head = bytes([kind, bit | 127]) + struct.pack("!Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + data


@asynccontextmanager
async def upgraded(
    served: Served, path: str = "/mcp/sample/ws"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A WebSocket that speaks bytes."""
    async with connected(served) as (reader, writer):
        writer.write(UPGRADE.replace(b"/mcp/sample/ws", path.encode()))
        assert b"101" in await reader.readline()
        while (await reader.readline()).strip():
            pass
        yield reader, writer


async def closing_code(reader: asyncio.StreamReader) -> int:
    """The code of the closing frame; 0 when the connection ends without one."""
    async with within():
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                kind, size = await reader.readexactly(2)
                size = struct.unpack("!H", await reader.readexactly(2))[0] if size == 126 else size
                data = await reader.readexactly(size)
                if kind == CLOSE:
                    return int.from_bytes(data[:2], "big")
    return 0
