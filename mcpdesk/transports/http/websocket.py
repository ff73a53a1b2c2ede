"""WebSocket: one JSON-RPC message per text frame, both eras as on a pipe. A closed socket ends its calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.client_exceptions import ClientConnectionError

from mcpdesk.auth.expiry import until_expired
from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.recorder.record import HttpNote
from mcpdesk.transports.base import Channel, Endpoint, Site
from mcpdesk.transports.http.answers import plain_error
from mcpdesk.transports.http.callers import caller_on_socket, holds_token, take_token, unreadable
from mcpdesk.transports.http.connection import head_of, peer_of
from mcpdesk.transports.http.quick_socket import QuickSocket
from mcpdesk.transports.http.ready import ONE_WRITE
from mcpdesk.transports.pipe import HIGH_WATER, UNREAD, WRITE_LIMIT

HEARTBEAT_S = 30.0
"""A ping this often; a peer that answers none within half of it is gone."""
FAREWELL_S = 1.0
"""How long a peer may take to answer our closing frame."""
SUBPROTOCOL = "mcp"
STOPPING = b"the server stops"
HUNG_UP = b"disconnected at the desk"
EXPIRED = b"the token has expired"

log = logging.getLogger(__name__)


class SocketRoutes:
    """The WebSockets of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._open: dict[QuickSocket, asyncio.Transport | None] = {}
        self._served: dict[int, QuickSocket] = {}
        self._farewells: set[asyncio.Task[None]] = set()

    async def get(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Upgrade the connection and serve it until one side closes, or its token expires."""
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return plain_error(426, "This endpoint speaks WebSocket", {"Upgrade": "websocket"})
        # aiohttp refuses a message of exactly its limit.
        limit = self._site.rules.max_body_bytes + 1
        socket = QuickSocket(
            _may_hold_token,
            heartbeat=HEARTBEAT_S,
            timeout=FAREWELL_S,
            protocols=(SUBPROTOCOL,),
            max_msg_size=limit,
        )
        try:
            await socket.prepare(request)
        except web.HTTPException as refusal:
            return plain_error(400, refusal.text or "no valid WebSocket handshake")
        self._open[socket] = request.transport
        try:
            await self._serve(request, endpoint, socket, caller or OPEN)
        finally:
            del self._open[socket]
        return socket

    def hang_up(self, connection: int) -> bool:
        """Say goodbye to one; False when it is none of these."""
        socket = self._served.get(connection)
        if socket is None:
            return False
        farewell_aio = asyncio.create_task(_dismiss(socket, self._open[socket], HUNG_UP))
        self._farewells.add(farewell_aio)
        farewell_aio.add_done_callback(self._farewells.discard)
        return True

    async def close(self) -> None:
        """Say goodbye to everybody."""
        await asyncio.gather(*(_dismiss(*each, STOPPING) for each in self._open.items()))

    async def _serve(
        self, request: web.BaseRequest, endpoint: Endpoint, socket: QuickSocket, caller: Principal
    ) -> None:
        line = _Line(request, socket)
        channel = endpoint.channel("websocket", peer_of(request), line.write, request.headers, caller)
        line.channel = channel
        self._served[channel.connection] = socket
        try:
            async with until_expired(caller):
                await self._read(request, socket, line, channel, _Names(endpoint, caller))
            if caller.has_expired(time.time()):
                await _dismiss(socket, request.transport, EXPIRED, WSCloseCode.POLICY_VIOLATION)
        finally:
            del self._served[channel.connection]
            channel.close("the client disconnected")
            line.close()

    async def _read(
        self, request: web.BaseRequest, socket: QuickSocket, line: _Line, channel: Channel, names: _Names
    ) -> None:
        is_first = True

        def take(texts: list[bytes]) -> bool:
            channel.take_all(texts)
            return line.has_room

        while True:
            message = await socket.receive()
            if message.type is WSMsgType.BINARY:
                refusal = b"messages travel in text frames"
                await socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=refusal)
            if message.type is not WSMsgType.TEXT:
                return
            text, sender = await names.sender(bytes(message.data))
            frame = channel.take(text, sender)
            if is_first:
                is_first = False
                head = head_of(request)
                self._site.recorder.note(HttpNote(frame, head.line, head.noted))
                socket.on_texts = take
            await line.caught_up()


class _Names:
    """Who sends the messages of one socket: whoever opened it, unless one brings a token of its own."""

    def __init__(self, endpoint: Endpoint, opener: Principal) -> None:
        self._endpoint = endpoint
        self._opener = opener

    async def sender(self, frame: bytes) -> tuple[bytes, Principal | None]:
        """A frame without a token that is in it, and whose that is; None: it has none."""
        if not _may_hold_token(frame):
            return frame, None
        try:
            message = codec.decode(frame)
        except ProtocolError:
            return unreadable(frame), None
        if not holds_token(message):
            return frame, None
        token, message = take_token(message)
        access = self._endpoint.access
        sender = await caller_on_socket(access, token, self._opener) if access.is_asked else None
        return codec.encode(message), sender


def _may_hold_token(frame: bytes) -> bool:
    # Letters may be escaped, too.
    return b'"jwt"' in frame or b"\\u00" in frame


async def _dismiss(
    socket: QuickSocket,
    transport: asyncio.Transport | None,
    reason: bytes,
    code: WSCloseCode = WSCloseCode.GOING_AWAY,
) -> None:
    try:
        async with asyncio.timeout(FAREWELL_S):
            await socket.close(code=code, message=reason)
    except TimeoutError:
        if transport is not None:
            transport.abort()


class _Line:
    """The way out of one socket. Too much that is left unread holds the peer's own requests back.

    Frames that leave together go to the TCP transport in one write, and no task has to wake for them: they
    are neither compressed nor masked. aiohttp writes its pings and the closing frame the same way.
    """

    def __init__(self, request: web.BaseRequest, socket: QuickSocket) -> None:
        self.channel: Channel | None = None
        self._request = request
        self._socket = socket
        self._transport = request.transport
        self._is_over = False
        self._catching_up_aio: asyncio.Task[None] | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def has_room(self) -> bool:
        """Whether the peer keeps up."""
        return self._catching_up_aio is None

    def write(self, frames: Sequence[bytes]) -> None:
        """Write frames. A peer that left too much unread is given up."""
        transport = self._transport
        # Nothing may follow a closing frame.
        if transport is None or self._is_over or self._socket.closed or transport.is_closing():
            return
        pieces: list[bytes] = []
        for frame in frames:
            pieces += (_head(len(frame)), frame)
        if sum(map(len, pieces)) <= ONE_WRITE:
            transport.write(b"".join(pieces))
        else:
            # Not `writelines`: in Python 3.12.0 to .8 and 3.13.0 to .1 it tells nobody that it is full.
            for piece in pieces:
                transport.write(piece)
        unread = transport.get_write_buffer_size()
        if unread > HIGH_WATER:
            UNREAD.check()
            self._hold_back(unread, transport)

    def _hold_back(self, unread: int, transport: asyncio.Transport) -> None:
        if unread > WRITE_LIMIT:
            log.warning("ended a WebSocket that left %d bytes unread", unread)
            self.close()
            transport.abort()
        elif self._catching_up_aio is None and self.channel is not None:
            self._has_room.clear()
            self.channel.pause()
            self._catching_up_aio = asyncio.create_task(self._catch_up(self.channel))

    async def caught_up(self) -> None:
        """Wait until the peer has read enough for more of its requests to be taken."""
        if not self._has_room.is_set():
            await self._has_room.wait()

    def close(self) -> None:
        """Write nothing any more, and hold nobody back."""
        self._is_over = True
        self._has_room.set()
        if self._catching_up_aio is not None:
            self._catching_up_aio.cancel()

    async def _catch_up(self, channel: Channel) -> None:
        try:
            await asyncio.sleep(0)  # The transport says only now that it holds too much.
            await self._request.writer.drain()
        except (ConnectionError, ClientConnectionError):
            log.debug("the peer of a WebSocket is gone")
        finally:
            self._catching_up_aio = None
            self._has_room.set()
            channel.resume()


def _head(size: int) -> bytes:
    """What precedes a whole text frame of so many bytes that is not masked. Source: RFC 6455, 5.2."""
    if size < 126:
        return bytes((0x81, size))
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")
