"""Requests sent on to another replica, at which the thing lives that they are about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mcpdesk.errors import ReplicaSilent, TransportError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

FORWARDED = "X-Mcpdesk-Forwarded"
"""Header of a request that comes from a replica: it is answered there, or refused, and sent on no more."""
CONNECT_S = 2.0
CHUNK_BYTES = 64 << 10


class _Answer:
    """An answer of a replica, whose body is read once."""

    def __init__(self, response: ClientResponse) -> None:
        self.status = response.status
        self.headers: Sequence[tuple[str, str]] = tuple(response.headers.items())
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        """Its body, piece by piece as it comes."""
        async for piece in self._response.content.iter_any():
            yield piece


class Forwarder:
    """Connections to other replicas."""

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    @asynccontextmanager
    async def ask(
        self, url: str, method: str, headers: Mapping[str, str], body: bytes, within_s: float | None
    ) -> AsyncIterator[_Answer]:
        """Send a request, to the host that its headers name; an answer must begin `within_s`.

        Raises: TransportError when it cannot be sent or the answer breaks off; ReplicaSilent when none comes.
        """
        import aiohttp

        if self._session is None:
            limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            connector = aiohttp.TCPConnector(limit=0)
            # A compressed or redirected answer goes back as it is.
            self._session = aiohttp.ClientSession(timeout=limit, connector=connector, auto_decompress=False)
        sent = self._session.request(
            method,
            url,
            headers=headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=("Accept", "User-Agent"),
        )
        place = url.split("?")[0]
        try:
            try:
                async with asyncio.timeout(within_s):
                    response = await sent
            except aiohttp.ConnectionTimeoutError as error:
                raise TransportError(f"the replica at {place} cannot be reached") from error
            except TimeoutError:
                raise ReplicaSilent(f"the replica at {place} gave no answer within {within_s} s") from None
            async with response:
                yield _Answer(response)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise TransportError(f"the replica at {place} does not answer: {error}") from error

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
