"""Streamable HTTP: requests that stand alone, or a session after a handshake. Source: WIRE 4, 5."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mcpdesk.client.http_requests import MAX_BYTES, HttpRequests, decoded_event, pause_s
from mcpdesk.client.http_sse import HttpSse
from mcpdesk.client.replies import Receive, ServerReply, SessionGone
from mcpdesk.client.timing import FAREWELL_S, within
from mcpdesk.errors import HttpError
from mcpdesk.protocol.framing import EventFramer
from mcpdesk.protocol.headers import encode_value
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import VERSION_KEY, is_stateless

SESSION = "Mcp-Session-Id"
VERSION = "MCP-Protocol-Version"


class StreamableHttp:
    """One server at a URL."""

    is_open = True

    def __init__(
        self, url: str, headers: Mapping[str, str], mode: str = "", max_bytes: int = MAX_BYTES
    ) -> None:
        """`headers` go with every request. Raises: DeskUserError for a URL that cannot be used."""
        self._requests = HttpRequests(url, headers, mode, max_bytes)
        self.target = self._requests.target
        self._max_bytes = max_bytes
        self._is_stateless = True
        self._session: dict[str, str] = {}
        """The headers of the session."""
        self._receive: Receive = lambda message: None

    @property
    def mirrors_arguments(self) -> bool:
        """The stateless era repeats arguments in headers."""
        return self._is_stateless

    @property
    def closing_cancels(self) -> bool:
        """In the stateless era a closed connection cancels its request."""
        return self._is_stateless

    async def open(self, receive: Receive) -> None:
        """Nothing is connected before the first request."""
        self._receive = receive

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Post a request. Raises: SessionGone; HttpError, InvalidAnswer without a reply."""
        used = self._headers_of(request)
        reply = await self._requests.post(request, {**used, **headers}, receive)
        if reply.status == 404 and SESSION in used:
            failure = reply.failure()
            raise SessionGone(failure.message, status=404, body=failure.body)
        return reply

    async def send(self, message: JSONObject) -> None:
        """Post a notification or a response."""
        reply = await self._requests.post(message, self._session)
        if reply.status >= 400:
            raise reply.failure()

    def agreed(self, revision: Revision, reply: ServerReply) -> None:
        """Remember the headers of the session."""
        self._is_stateless, self._session = revision.is_stateless, {}
        if revision.is_stateless:
            return
        if session := reply.headers.get(SESSION.lower()):
            self._session[SESSION] = session
        if revision.has_version_header:
            self._session[VERSION] = revision.name

    def older(self) -> HttpSse:
        """The transport of the first revision, at the same URL."""
        return HttpSse(self._requests)

    async def listen(self) -> None:
        """Receive what comes on the session's own stream; returns when the server has none."""
        framer = EventFramer(self._max_bytes)
        while not self._is_stateless:
            try:
                async for event in self._requests.events(self._session, framer):
                    message = decoded_event(event)
                    if isinstance(message, dict):
                        self._receive(message)
            except HttpError as error:
                if error.status:
                    return
            await asyncio.sleep(pause_s(framer))

    async def close(self) -> None:
        """End the session; a server that does not answer soon is left alone."""
        if SESSION in self._session:
            await within(FAREWELL_S, lambda: self._requests.delete(self._session))
        await self._requests.close()

    def _headers_of(self, request: JSONObject) -> dict[str, str]:
        if not is_stateless(request):
            return {} if request["method"] == "initialize" else self._session
        method, params = request["method"], request["params"]
        row = METHODS.get(method)
        routing = {VERSION: params["_meta"][VERSION_KEY], "Mcp-Method": method}
        if row is not None and row.routing_field:
            routing["Mcp-Name"] = encode_value(str(params.get(row.routing_field, "")))
        return routing
