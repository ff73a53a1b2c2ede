"""The HTTP transport of 2024-11-05 from the client's side: messages are posted, answers come on one stream.

Source: WIRE 4.8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import Any
from urllib.parse import urljoin, urlsplit

from mcpdesk.client.answer_checks import excerpt, is_response, result_of
from mcpdesk.client.farewells import Partings
from mcpdesk.client.http_requests import Wire
from mcpdesk.client.line import answer_to, opened, opening, withdrawal
from mcpdesk.errors import CallError, HttpError, InvalidAnswer, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import R1, Revision


class Listening:
    """Connections, one after the other: each lasts as long as its stream, and what waits fails with it."""

    mirrors = False

    def __init__(self, wire: Wire) -> None:
        self.target = wire.target
        self.revision: Revision = R1
        self.server: Mapping[str, Any] = {}
        self.instructions = ""
        self._wire = wire
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._place: asyncio.Future[str]
        self._reader: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._partings = Partings()

    async def open(self) -> None:
        """Listen, learn where to post, and shake hands. Raises: CallError when it goes another way here."""
        loop = asyncio.get_running_loop()
        self._place = loop.create_future()
        self._reader = loop.create_task(self._read())
        async with AsyncExitStack() as unless_open:
            unless_open.push_async_callback(self.hang_up)
            await self._place
            result = await self._request("initialize", opening(R1))
            self.revision, self.server, self.instructions = opened(result, self.target)
            await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
            unless_open.pop_all()

    async def request(self, method: str, params: JSONObject, headers: Mapping[str, str]) -> JSONObject:
        """The result. Raises: CallError."""
        async with self._opening:
            if self._reader is not None and self._reader.done():
                await self.open()
        return await self._request(method, params)

    async def _request(self, method: str, params: JSONObject) -> JSONObject:
        identifier = next(self._ids)
        self._waiting[identifier] = waiting = asyncio.get_running_loop().create_future()
        try:
            await self._post({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})
            return result_of(await waiting, identifier, self.target)
        except asyncio.CancelledError:
            self._partings.begin(self._post(withdrawal(identifier)))
            raise
        finally:
            del self._waiting[identifier]

    async def hang_up(self) -> None:
        """Stop listening, which ends the connection."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        self._fail(CallError("closed while the call was under way", self.target))

    async def close(self) -> None:
        """End the connection, and with it the wire."""
        await self._partings.end()
        await self.hang_up()
        await self._wire.close()

    async def _post(self, message: JSONObject) -> None:
        reply = await self._wire.post(message, {}, url=await self._place)
        if reply.status >= 300:
            raise reply.failure(self.target)

    async def _read(self) -> None:
        """Take what comes, until the stream ends; then everybody who waits is told."""
        try:
            async for event in self._wire.events():
                if event.name == "endpoint" and not self._place.done():
                    self._place.set_result(self._posting_place(event.data))
                elif event.name == "message":
                    await self._take(codec.decode(event.data))
            raise HttpError("the server ended the connection", self.target)
        except ProtocolError as error:
            self._fail(InvalidAnswer(f"an event is not JSON: {error.message}", self.target))
        except CallError as error:
            self._fail(error)

    async def _take(self, message: Any) -> None:
        if is_response(message):
            waiting = self._waiting.get(message.get("id")) if isinstance(message.get("id"), int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif (answer := answer_to(message)) is not None:
            await self._post(answer)

    def _posting_place(self, data: bytes) -> str:
        """Raises: InvalidAnswer for no URL, or one of another server: keys and tokens are for this one."""
        told = data.decode("utf-8", "replace").strip()
        try:
            place = urljoin(self._wire.url, told)
            here, there = urlsplit(self._wire.url), urlsplit(place)
        except ValueError:
            reason = "it wants messages to be posted where no URL leads"
            raise InvalidAnswer(reason, self.target, excerpt(told)) from None
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise InvalidAnswer(
                "it wants messages to be posted to another server", self.target, excerpt(place)
            )
        return place

    def _fail(self, error: CallError) -> None:
        for waiting in (self._place, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(error)
        if self._place.done() and not self._place.cancelled():
            self._place.exception()  # looked at, also when nobody waits for it any more
