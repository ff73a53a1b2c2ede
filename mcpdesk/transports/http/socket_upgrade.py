"""Upgrade of an HTTP connection to a WebSocket, and the rules of RFC 6455 that aiohttp does not check."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import WSCloseCode, web

from mcpdesk.transports.http.connections import HttpConnection, connection_of
from mcpdesk.transports.http.responses import plain_error

HEARTBEAT_S = 30.0
"""Seconds between two pings. A peer that does not answer within half of this time is disconnected."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds that a peer may take to answer our closing frame."""
UNMASKED_REASON = b"frames of a client must be masked"
FIXED_PART_SIZE = 2
"""Size of the fixed part of a frame head."""
MASK_BIT = 0x80
"""Bit of the second byte of a frame: the payload is masked."""
MASK_SIZE = 4
EXTENDED_SIZES = {126: 2, 127: 8}
"""Number of bytes of the payload size after the fixed part, by the seven-bit size in the fixed part."""


async def upgrade(request: web.BaseRequest, socket: web.WebSocketResponse[Any]) -> web.Response | None:
    """Upgrade the connection of a request. Return an error response if the upgrade is impossible.

    After the upgrade, an unmasked frame of the client closes the socket with code 1002.
    """
    if request.headers.get("Upgrade", "").lower() != "websocket":
        return plain_error(426, "This endpoint speaks WebSocket", {"Upgrade": "websocket"})
    connection = connection_of(request)
    if connection.has_early_data:  # violates section 4.1, and hides where the first frame starts
        return plain_error(400, "Frames must not be sent before the answer to the handshake")
    connection.set_filter(MaskedFrames(socket, connection).filter_frames)
    try:
        await socket.prepare(request)
    except web.HTTPException as refusal:
        connection.set_filter(None)
        return plain_error(400, refusal.text or "no valid WebSocket handshake")
    return None


async def close_socket(
    socket: web.WebSocketResponse[Any],
    connection: HttpConnection,
    reason: bytes,
    code: WSCloseCode = WSCloseCode.GOING_AWAY,
) -> None:
    """Close a socket. A peer that does not read the closing frame in time is disconnected."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await socket.close(code=code, message=reason)
    except TimeoutError:
        connection.abort()


class MaskedFrames:
    """Filter for the frames of a client as they arrive. The first unmasked one closes the socket (5.1)."""

    def __init__(self, socket: web.WebSocketResponse[Any], connection: HttpConnection) -> None:
        self._socket = socket
        self._connection = connection
        self._head = b""
        """Bytes of an incomplete frame head."""
        self._remaining_bytes = 0
        """Bytes of the current frame that have not arrived."""
        self._closing_task: asyncio.Task[None] | None = None

    def filter_frames(self, data: bytes) -> bytes:
        """Return received data up to the first unmasked frame. Nothing after that frame is accepted."""
        if self._closing_task is not None:
            return b""
        position = 0
        while position < len(data):
            if self._remaining_bytes:
                step = min(self._remaining_bytes, len(data) - position)
                self._remaining_bytes -= step
                position += step
                continue
            start = position
            position += _head_size(self._head) - len(self._head)
            self._head += data[start:position]
            if len(self._head) == FIXED_PART_SIZE and not self._head[1] & MASK_BIT:
                self._closing_task = asyncio.create_task(
                    close_socket(self._socket, self._connection, UNMASKED_REASON, WSCloseCode.PROTOCOL_ERROR)
                )
                return data[:start]
            if len(self._head) == _head_size(self._head):
                self._remaining_bytes = MASK_SIZE + _payload_size(self._head)
                self._head = b""
        return data


def _head_size(head: bytes) -> int:
    """Return the size of a frame head without its mask, as far as the bytes that have arrived show it."""
    if len(head) < FIXED_PART_SIZE:
        return FIXED_PART_SIZE
    return FIXED_PART_SIZE + EXTENDED_SIZES.get(head[1] & ~MASK_BIT, 0)


def _payload_size(head: bytes) -> int:
    return int.from_bytes(head[FIXED_PART_SIZE:]) if len(head) > FIXED_PART_SIZE else head[1] & ~MASK_BIT
