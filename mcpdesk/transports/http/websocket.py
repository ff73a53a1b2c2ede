"""WebSocket transport, with one JSON-RPC message in each text frame.

It serves revisions with a handshake and stateless ones. When the socket closes, its calls end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.client_exceptions import ClientConnectionError

from mcpdesk.auth.principal import OPEN, Principal, until_expired
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.http.callers import (
    caller_on_socket,
    has_token_field,
    masked_data,
    pop_token,
)
from mcpdesk.transports.http.connections import HttpConnection, connection_of
from mcpdesk.transports.http.request_head import head_of, peer_of
from mcpdesk.transports.http.socket_upgrade import CLOSE_TIMEOUT_S, HEARTBEAT_S, close_socket, upgrade
from mcpdesk.transports.pipe import HIGH_WATER
from mcpdesk.transports.unread_answers import UNREAD, WRITE_LIMIT

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import FrameChannel
    from mcpdesk.transports.http.site import Endpoint, Site

SUBPROTOCOL = "mcp"
STOP_REASON = b"the server stops"
DISCONNECT_REASON = b"disconnected at the desk"
EXPIRED_REASON = b"the token has expired"
NOT_UTF8_REASON = b"text frames must be UTF-8"

T = TypeVar("T")
Socket: TypeAlias = "web.WebSocketResponse[Literal[False]]"

log = logging.getLogger(__name__)


class SocketRoutes:
    """WebSockets of a core."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: dict[Socket, HttpConnection] = {}
        self._by_connection: dict[int, Socket] = {}
        self._close_tasks: set[asyncio.Task[None]] = set()

    async def get(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Upgrade the connection, and serve it until one side closes it or the caller's token expires."""
        # One byte more, because aiohttp rejects a message of exactly the limit.
        limit = self._site.rules.max_body_bytes + 1
        socket: Socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S,
            timeout=CLOSE_TIMEOUT_S,
            protocols=(SUBPROTOCOL,),
            compress=False,
            max_msg_size=limit,
            writer_limit=WRITE_LIMIT,  # `SocketWriter` waits for slow readers itself
            decode_text=False,
        )
        if refusal := await upgrade(request, socket):
            return refusal
        self._open[socket] = connection_of(request)
        try:
            await self._serve(request, endpoint, socket, caller or OPEN)
        finally:
            del self._open[socket]
        return socket

    def disconnect(self, connection: int) -> bool:
        """Close one socket. Return False if the number is unknown."""
        socket = self._by_connection.get(connection)
        if socket is None:
            return False
        close_task = asyncio.create_task(close_socket(socket, self._open[socket], DISCONNECT_REASON))
        self._close_tasks.add(close_task)
        close_task.add_done_callback(self._close_tasks.discard)
        return True

    async def close(self) -> None:
        """Close all sockets."""
        await asyncio.gather(*(close_socket(*each, STOP_REASON) for each in self._open.items()))

    async def _serve(
        self, request: web.BaseRequest, endpoint: Endpoint, socket: Socket, caller: Principal
    ) -> None:
        """Serve a socket until it closes or the token of the caller expires."""
        writer = SocketWriter(request, socket)
        channel = endpoint.channel("websocket", peer_of(request), writer.write, request.headers, caller)
        writer.channel = channel
        self._by_connection[channel.connection] = socket
        try:
            async with until_expired(caller):
                await self._read(request, socket, writer, channel, _Senders(endpoint, caller))
            if caller.has_expired(time.time()):
                await close_socket(
                    socket, connection_of(request), EXPIRED_REASON, WSCloseCode.POLICY_VIOLATION
                )
        finally:
            del self._by_connection[channel.connection]
            channel.close("the client disconnected")
            writer.close()

    async def _read(
        self,
        request: web.BaseRequest,
        socket: Socket,
        writer: SocketWriter,
        channel: FrameChannel,
        senders: _Senders,
    ) -> None:
        """Pass messages to the channel until the socket closes."""
        is_first = True
        while True:
            message = await socket.receive()
            if message.type is WSMsgType.BINARY:
                refusal = b"messages travel in text frames"
                await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=refusal)
            if message.type is not WSMsgType.TEXT:
                return
            data = bytes(message.data)
            if not _is_utf8(data):
                await socket.close(code=WSCloseCode.INVALID_TEXT, message=NOT_UTF8_REASON)
                return
            text, sender = await senders.sender(data)
            if is_first:
                is_first = False
                await writer.answer(partial(channel.receive, text, sender, head_of(request).http_note))
            else:
                await writer.answer(partial(channel.receive_all, (text,), sender))
            await writer.wait_until_read()


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Senders:
    """Identifies the sender of each message: by its token, or else as the caller that opened the socket."""

    def __init__(self, endpoint: Endpoint, opener: Principal) -> None:
        self._endpoint = endpoint
        self._opener = opener

    async def sender(self, frame: bytes) -> tuple[bytes, Principal | None]:
        """Return a frame without its token, and the principal of the token. None without a token."""
        if not _may_have_token(frame):
            return frame, None
        try:
            message = codec.decode(frame)
        except ProtocolError:
            return masked_data(frame), None
        if not has_token_field(message):
            return frame, None
        token, message = pop_token(message)
        access = self._endpoint.access
        sender = await caller_on_socket(access, token, self._opener) if access.evaluates_tokens else None
        return codec.encode(message), sender


def _may_have_token(frame: bytes) -> bool:
    # The letters of the key `jwt` may be escaped.
    return b'"jwt"' in frame or b"\\u00" in frame


class SocketWriter:
    """Sends the frames of one socket. While too much is unread, no requests are read from the peer."""

    def __init__(self, request: web.BaseRequest, socket: Socket) -> None:
        self.channel: FrameChannel | None = None
        self._connection = connection_of(request)
        self._socket = socket
        self._frames: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_sending = False
        """True while a task or the reader sends queued frames."""
        self._is_closed = False
        self._sender_task: asyncio.Task[None] | None = None
        self._room_event = asyncio.Event()
        """Set while the peer reads fast enough."""
        self._room_event.set()

    @property
    def unread(self) -> int:
        """Number of bytes in the queue."""
        return self._queued_bytes

    def give_up(self) -> None:
        """Disconnect the peer at once."""
        self.close()
        self._connection.abort()

    def write(self, frames: Sequence[bytes]) -> None:
        """Queue frames. If too much is unread, the peer is disconnected."""
        if self._is_closed or self._socket.closed:
            return
        self._frames += frames
        self._queued_bytes += sum(map(len, frames))
        if not self._is_sending:
            self._is_sending = True
            self._sender_task = asyncio.create_task(self._send())
        if self._queued_bytes > HIGH_WATER:
            self._pause_or_disconnect()

    async def answer(self, handle: Callable[[], T]) -> T:
        """Call `handle`, which handles a message. Answers that it writes at once are sent without a task."""
        if self._is_sending:
            return handle()
        self._is_sending = True
        try:
            return handle()
        finally:
            await self._send(may_wait=False)

    async def wait_until_read(self) -> None:
        """Wait until the peer has read enough, so that its next request can be read."""
        if not self._room_event.is_set():
            await self._room_event.wait()

    def close(self) -> None:
        """Stop sending, and wake waiting tasks."""
        self._is_closed = True
        self._frames.clear()
        self._queued_bytes = 0
        self._room_event.set()
        UNREAD.remove(self)
        if self._sender_task is not None:
            self._sender_task.cancel()

    async def _send(self, may_wait: bool = True) -> None:
        """Send queued frames. If `may_wait` is False and the peer is slow, a task continues."""
        frames, connection = self._frames, self._connection
        try:
            while frames:
                if connection.is_write_paused:
                    if not may_wait:
                        self._sender_task = asyncio.create_task(self._send())
                        return
                    await connection.drain()
                frame = frames.popleft()
                self._queued_bytes -= len(frame)  # from here on the connection counts these bytes
                await self._socket.send_frame(frame, WSMsgType.TEXT)
        except (ConnectionError, ClientConnectionError):
            log.debug("the peer of a WebSocket disconnected")
            self.close()
        self._is_sending = False
        if not self._room_event.is_set():
            self._room_event.set()
            UNREAD.remove(self)
            if self.channel is not None:
                self.channel.resume()

    def _pause_or_disconnect(self) -> None:
        if self._queued_bytes > WRITE_LIMIT:
            UNREAD.count_cut("a WebSocket", self._queued_bytes)
            self.give_up()
            return
        UNREAD.add(self)
        UNREAD.check()
        if self._room_event.is_set() and self.channel is not None:
            self._room_event.clear()
            self.channel.pause()
