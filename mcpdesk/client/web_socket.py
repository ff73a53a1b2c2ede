"""A server behind a WebSocket: one message in each text frame, in both eras, as on a pipe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpdesk.client.http_transports import CONNECT_S, checked_url, connection_errors
from mcpdesk.client.transport import ClientTransport, PendingReplies, Receive, ServerReply, without_query
from mcpdesk.errors import CallError, HttpError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    import aiohttp

SUBPROTOCOL = "mcp"
LARGEST = 256 << 20
"""Bytes of one message."""
HEARTBEAT_S = 30.0
PROBE_S = 8.0


class WebSocket(ClientTransport):
    """Connects with the first request, and again when it is used after the connection ended."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """`headers` go with the request that opens it. Raises: DeskUserError for no URL of a WebSocket."""
        checked_url(f"http{url.removeprefix('ws')}")
        self.target = without_query(url)
        self._url = url
        self._headers = dict(headers)
        self._replies = PendingReplies()
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended."""
        return self._reader is not None and not self._reader.done()

    @property
    def probe_s(self) -> float:
        """A server that does not know the first request may answer nothing to it."""
        return PROBE_S

    async def open(self, receive: Receive) -> None:
        """Connect. Raises: HttpError when the server refuses or cannot be reached."""
        import aiohttp

        if self.is_open:
            return
        await self.close()
        self._session = aiohttp.ClientSession(headers={"User-Agent": "mcpdesk"})
        with connection_errors():
            try:
                async with asyncio.timeout(CONNECT_S):
                    self._socket = await self._session.ws_connect(
                        self._url,
                        headers=self._headers,
                        protocols=(SUBPROTOCOL,),
                        max_msg_size=LARGEST,
                        heartbeat=HEARTBEAT_S,
                    )
            except BaseException:
                await self.close()
                raise
        self._reader = asyncio.get_running_loop().create_task(self._read(self._socket, receive))

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. Raises: HttpError when the connection ends."""
        with self._replies.expecting(request["id"]) as reply:
            await self.send(request)
            return await reply

    async def send(self, message: JSONObject) -> None:
        """Send a message. Raises: HttpError when the connection has ended."""
        if self._socket is None or self._socket.closed:
            raise HttpError("the connection has ended")
        with connection_errors():
            await self._socket.send_str(codec.encode(message).decode())

    async def until_ended(self) -> None:
        """Wait until it ends."""
        await self._replies.until_ended()

    async def close(self) -> None:
        """Close the connection."""
        socket, session, reader = self._socket, self._session, self._reader
        self._socket = self._session = self._reader = None
        if socket is not None:
            with suppress(HttpError), connection_errors():
                await socket.close()
        if reader is not None:
            await asyncio.wait([reader])
        if session is not None:
            await session.close()

    async def _read(self, socket: aiohttp.ClientWebSocketResponse, receive: Receive) -> None:
        """Hand on what comes until the connection ends; then everything that waits fails."""
        from aiohttp import WSMsgType

        while (message := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            self._replies.deliver(data, receive)
        reason = f"the server closed the connection (code {socket.close_code})"
        self._replies.fail(HttpError(reason) if socket.close_code else CallError("the connection broke"))
