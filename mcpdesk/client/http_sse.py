"""The HTTP transport of 2024-11-05: messages are posted, replies come on one stream. Source: WIRE 4.8."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcpdesk.client.http_requests import HttpRequests, decoded_event
from mcpdesk.client.replies import PendingReplies, Receive, ServerReply, excerpt, is_response
from mcpdesk.errors import CallError, HttpError, InvalidAnswer
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcpdesk.protocol.revisions import Revision


class HttpSse:
    """One connection lasts as long as its stream, and what waits fails with it; then it is opened again."""

    mirrors_arguments = False
    closing_cancels = False

    def __init__(self, requests: HttpRequests) -> None:
        self.target = requests.target
        self._requests = requests
        self._replies = PendingReplies()
        self._post_url: asyncio.Future[str]
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the stream has not ended."""
        return self._reader is not None and not self._reader.done()

    async def open(self, receive: Receive) -> None:
        """Open the stream and learn where to post. Raises: CallError when the server has no such stream."""
        loop = asyncio.get_running_loop()
        self._post_url = loop.create_future()
        self._reader = loop.create_task(self._read(receive))
        try:
            await self._post_url
        except asyncio.CancelledError:
            await self._hang_up()
            raise

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Post a request and wait for its reply on the stream."""
        with self._replies.expecting(request["id"]) as reply:
            try:
                await self.send(request)
                return await reply
            except BaseException:
                if request["method"] == "initialize":
                    await self._hang_up()
                raise

    async def send(self, message: JSONObject) -> None:
        """Post any message."""
        reply = await self._requests.post(message, {}, url=await self._post_url)
        if reply.status >= 300:
            raise reply.failure()

    def agreed(self, revision: Revision, reply: ServerReply) -> None:
        """There are no headers that would say so."""

    def older(self) -> None:
        """There is no older transport."""

    async def listen(self) -> None:
        """The stream brings everything as it is."""

    async def close(self) -> None:
        """End the stream, which ends the connection."""
        await self._hang_up()
        await self._requests.close()

    async def _hang_up(self) -> None:
        if self._reader is None:
            return
        self._reader.cancel()
        await asyncio.wait([self._reader])
        self._fail(CallError("closed while the call was under way"))

    async def _read(self, receive: Receive) -> None:
        """Hand on what comes until the stream ends; then everything that waits fails."""
        try:
            async for event in self._requests.events():
                if event.name == "endpoint" and not self._post_url.done():
                    self._post_url.set_result(self._checked_post_url(event.data))
                elif event.name == "message":
                    message = decoded_event(event)
                    if is_response(message):
                        self._replies.arrived(message, event.data)
                    elif isinstance(message, dict):
                        receive(message)
            raise HttpError("the server ended the connection")
        except CallError as error:
            self._fail(error)

    def _checked_post_url(self, data: bytes) -> str:
        """Raises: InvalidAnswer for no URL, or one of another server: keys and tokens are for this one."""
        told = data.decode("utf-8", "replace").strip()
        try:
            place = urljoin(self._requests.url, told)
            here, there = urlsplit(self._requests.url), urlsplit(place)
        except ValueError:
            reason = "it wants messages to be posted where no URL leads"
            raise InvalidAnswer(reason, excerpt=excerpt(told)) from None
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            reason = "it wants messages to be posted to another server"
            raise InvalidAnswer(reason, excerpt=excerpt(place))
        return place

    def _fail(self, error: CallError) -> None:
        self._replies.fail(error)
        if not self._post_url.done():
            self._post_url.set_exception(error)
        if not self._post_url.cancelled():
            self._post_url.exception()  # looked at, also when nobody waits for it any more
