"""Connections that forward requests to the replica that owns a session, job or question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from mcpdesk.errors import TransportError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientWebSocketResponse

FORWARDED_HEADER = "X-Mcpdesk-Forwarded"
"""Header of a request that another replica forwarded. Such a request is not forwarded again."""
MOVED_HEADER = "X-Mcpdesk-Moved"
"""Response header with the id of the new owner. A replica sends it if another replica now has the job."""
CONNECT_TIMEOUT_S = 2.0
HEARTBEAT_S = 5.0
"""Seconds between two pings on a WebSocket to another replica."""


class ReplicaSilent(TransportError):
    """Another replica accepted a request but did not answer in time.

    The outcome of the request is unknown.
    """


class SocketRejected(TransportError):
    """Another replica rejected a WebSocket."""

    def __init__(self, status: int, new_holder: str) -> None:
        """`status` is the HTTP status. `new_holder` is the id of the replica that has the job now, or ""."""
        super().__init__(f"a replica refused a WebSocket: {status}")
        self.status, self.new_holder = status, new_holder


class _Answer:
    """HTTP response of another replica. Its body can be read once."""

    def __init__(self, response: ClientResponse) -> None:
        self.status = response.status
        self.headers: Sequence[tuple[str, str]] = tuple(response.headers.items())
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body in chunks as they arrive. Raises: TransportError if the connection breaks."""
        from aiohttp import ClientError

        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (ClientError, OSError) as error:
            raise TransportError(f"the replica ended its answer early: {error}") from error


class Forwarder:
    """Connections to other replicas."""

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    @asynccontextmanager
    async def ask(
        self, url: str, method: str, headers: Mapping[str, str], body: bytes, within_s: float | None
    ) -> AsyncIterator[_Answer]:
        """Send a request to another replica. The Host header is taken from `headers`.

        The answer must begin within `within_s` seconds. Raises: TransportError if the request cannot be sent
        or the answer is cut off; ReplicaSilent if no answer begins.
        """
        import aiohttp

        pending_response = self._client_session().request(
            method,
            url,
            headers=headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=("Accept", "User-Agent"),
        )
        path = url.split("?")[0]
        try:
            try:
                async with asyncio.timeout(within_s):
                    response = await pending_response
            except aiohttp.ConnectionTimeoutError as error:
                raise TransportError(f"the replica at {path} cannot be reached") from error
            except TimeoutError:
                raise ReplicaSilent(f"the replica at {path} gave no answer within {within_s} s") from None
            async with response:
                yield _Answer(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise TransportError(f"the replica at {path} does not answer: {error}") from error

    @asynccontextmanager
    async def listen(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[AsyncGenerator[str, None]]:
        """Open a WebSocket to another replica, and provide the texts that this replica sends.

        The Host header is taken from `headers`. Raises: SocketRejected if the replica refuses; TransportError
        if the WebSocket cannot be opened or breaks.
        """
        import aiohttp

        try:
            async with self._client_session().ws_connect(
                url, headers=headers, heartbeat=HEARTBEAT_S
            ) as socket:
                yield _texts(socket)
        except aiohttp.WSServerHandshakeError as error:
            new_holder = error.headers.get(MOVED_HEADER, "") if error.headers is not None else ""
            raise SocketRejected(error.status, new_holder) from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise TransportError(f"the replica at {url.split('?')[0]} does not answer: {error}") from error

    def _client_session(self) -> ClientSession:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
            connector = aiohttp.TCPConnector(limit=0)
            # A compressed response is passed on unchanged.
            self._session = aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False)
        return self._session

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()


async def _texts(socket: ClientWebSocketResponse[Literal[True]]) -> AsyncGenerator[str, None]:
    """Yield the texts of a WebSocket until it closes normally. Raises: TransportError if it breaks."""
    from aiohttp import WSMsgType

    while True:
        message = await socket.receive()
        if message.type is WSMsgType.TEXT:
            yield message.data
        elif message.type is WSMsgType.CLOSE:
            return
        elif message.type is not WSMsgType.BINARY:
            raise TransportError("the replica closed the connection")
