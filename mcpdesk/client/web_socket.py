"""Transport over a WebSocket with one message in each text frame, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Self

from mcpdesk.client.answers.connection_faults import connection_errors
from mcpdesk.client.answers.large_frames import OnFrame, deliver_frame, read_on_thread
from mcpdesk.client.answers.pending_replies import ConnectedTransport, PendingReplies
from mcpdesk.client.http_transports import checked_url
from mcpdesk.client.timing import CONNECT_TIMEOUT_S
from mcpdesk.client.transport import Incoming, Receive, excerpt, without_query
from mcpdesk.errors import CallError, HttpError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.reading.message import ReadFrame
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

if TYPE_CHECKING:
    import aiohttp

SUBPROTOCOL = "mcp"
MAX_MESSAGE_BYTES = 256 << 20
"""Largest message in bytes."""
MAX_QUOTED_LENGTH = 80
"""Maximum number of characters of a frame that a remark quotes."""
HEARTBEAT_S = 30.0
"""Seconds between pings."""
PROBE_S = 1.5
"""Time limit in seconds for the answer to the first request."""


class SocketChannel:
    """One WebSocket connection."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        on_data: OnFrame,
        on_end: Callable[[CallError], None],
    ) -> None:
        self._session, self._on_data, self._on_end = session, on_data, on_end
        self._socket: aiohttp.ClientWebSocketResponse
        self._reader: asyncio.Task[None]

    @classmethod
    async def open(
        cls,
        url: str,
        headers: Mapping[str, str],
        on_data: OnFrame,
        on_end: Callable[[CallError], None],
    ) -> Self:
        """Connect. Raises: HttpError if the server refuses or cannot be reached."""
        import aiohttp

        # aiohttp would follow a redirect to another host and send our key there. `ws_connect` has no option
        # to disable redirects.
        trace = aiohttp.TraceConfig()
        trace.on_request_redirect.append(_refuse_redirect)
        session = aiohttp.ClientSession(headers={"User-Agent": "mcpdesk"}, trace_configs=[trace])
        channel = cls(session, on_data, on_end)
        with connection_errors():
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    channel._socket = await channel._session.ws_connect(
                        url,
                        headers=headers,
                        protocols=(SUBPROTOCOL,),
                        max_msg_size=MAX_MESSAGE_BYTES,
                        heartbeat=HEARTBEAT_S,
                    )
            except BaseException:
                await channel._session.close()
                raise
        channel._reader = asyncio.get_running_loop().create_task(channel._read())
        return channel

    @property
    def is_open(self) -> bool:
        """True until the connection ends."""
        return not self._reader.done()

    async def send(self, data: bytes) -> None:
        """Send a message. Raises: HttpError if the connection has ended."""
        if self._socket.closed:
            raise HttpError("the connection has ended")
        with connection_errors():
            await self._socket.send_str(data.decode())

    async def end(self) -> None:
        """Close the connection."""
        with suppress(HttpError), connection_errors():
            await self._socket.close()
        await asyncio.wait([self._reader])
        await self._session.close()

    async def _read(self) -> None:
        """Pass messages to `on_data` until the connection ends."""
        from aiohttp import WSMsgType

        socket, end_error = self._socket, CallError("the connection broke")
        try:
            while (message := await socket.receive()).type in (WSMsgType.TEXT, WSMsgType.BINARY):
                data = message.data.encode() if message.type is WSMsgType.TEXT else message.data
                deliver_frame(self._on_data, data, await read_on_thread(data))
            if socket.close_code:
                end_error = HttpError(f"the server closed the connection (code {socket.close_code})")
        except CallError as error:
            end_error = error
        finally:  # also after an unexpected failure, so that no request waits forever
            self._on_end(end_error)


async def _refuse_redirect(
    session: aiohttp.ClientSession, context: SimpleNamespace, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    """Raise HttpError instead of following a redirect."""
    location = excerpt(redirect.response.headers.get("Location", ""))
    status = redirect.response.status
    raise HttpError(f"HTTP {status}: it redirects to {location}, which is not followed", status=status)


class WebSocket(ConnectedTransport):
    """Transport over a WebSocket. If the connection has ended, the next request opens a new one."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """`headers` are sent with the opening request.

        Raises: DeskUserError if the URL is not a valid WebSocket URL.
        """
        checked_url(f"http{url.removeprefix('ws')}")
        super().__init__(without_query(url), PendingReplies())
        self._url = url
        self._headers = dict(headers)
        self._channel: SocketChannel | None = None

    @property
    def is_open(self) -> bool:
        """True until the connection ends."""
        return self._channel is not None and self._channel.is_open

    @property
    def probe_s(self) -> float:
        """Time limit in seconds for the first answer. A server may not answer an unknown request."""
        return PROBE_S

    async def open(self, receive: Receive) -> None:
        """Connect. Raises: HttpError if the server refuses or cannot be reached."""
        if self.is_open:
            return
        await self.close()

        def received(data: bytes, read: ReadFrame | None) -> None:
            if not self._replies.deliver(data, receive, read):
                fault = (
                    f"the server sent a frame that is not a message: {excerpt(data)[:MAX_QUOTED_LENGTH]!r}"
                )
                receive(Incoming(None, data, (Remark(RemarkKind.UNREADABLE, fault),)))

        self._channel = await SocketChannel.open(self._url, self._headers, received, self._replies.fail)

    async def send(self, message: JSONObject) -> None:
        """Send a message. Raises: HttpError if the connection has ended."""
        if self._channel is None:
            raise HttpError("the connection has ended")
        await self._channel.send(codec.encode(message))

    async def close(self) -> None:
        """Close the connection."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.end()
