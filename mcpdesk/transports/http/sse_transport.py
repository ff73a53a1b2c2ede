"""HTTP+SSE transport of 2024-11-05. A client POSTs messages and receives all answers on one event stream.

When the stream closes, the connection and its calls end. Nothing can be resumed. Source: MCP basic/transports
of 2024-11-05.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from mcpdesk.auth.principal import OPEN, Principal, until_expired
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import event
from mcpdesk.protocol.jsonrpc import classify
from mcpdesk.protocol.marked_ids import marked, process_mark
from mcpdesk.recorder.record import HttpNote
from mcpdesk.transports.http.callers import CallerCheck, has_token_field, pop_token
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.event_stream import (
    HIGH_WATER,
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    EventStream,
    wait,
)
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_head import head_of, peer_of
from mcpdesk.transports.http.responses import (
    JSON,
    RequestRefused,
    content_type_error,
    json_answer,
    plain_error,
    rpc_error,
)

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import FrameChannel
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.site import Endpoint, Site

ID_BYTES = 24


class SseRoutes:
    """Endpoints of the 2024-11-05 transport, and the open connections by their secret ids."""

    def __init__(self, site: Site, other_processes: OtherProcesses | None = None) -> None:
        self._site, self._other_processes = site, other_processes
        self._open: dict[str, _SseConnection] = {}
        """Open connections by id."""

    async def get(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Open a connection. The first event has the URL for the client's posts.

        The connection ends with the stream, or when the token of the opening request expires.
        """
        if not head_of(request).accepted.stream:
            return plain_error(406, "Accept must allow text/event-stream")
        mark = "" if self._other_processes is None else self._other_processes.mark
        identifier = marked(secrets.token_urlsafe(ID_BYTES), mark)
        connection = _SseConnection(request, endpoint, caller or OPEN)
        endpoint_path = request.raw_path.partition("?")[0].rstrip("/").removesuffix("sse")
        mode = endpoint.key.partition("?")[2]
        post_url = f"{endpoint_path}messages?connection={identifier}{f'&{mode}' if mode else ''}"
        connection.stream.put(f"event: endpoint\ndata: {post_url}\n\n".encode())
        self._open[identifier] = connection
        try:
            async with until_expired(caller or OPEN):
                await connection.keep_open()
        finally:
            del self._open[identifier]
            connection.channel.close("the client disconnected")
        return await connection.stream.finish()

    async def post(
        self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal | None
    ) -> web.StreamResponse:
        """Accept one message. Its answer is sent on the stream."""
        identifier = request.query.get("connection", "")
        sse = self._open.get(identifier)
        if sse is None and self._other_processes is not None:
            max_bytes = self._site.rules.max_body_bytes
            forwarded = await self._other_processes.post(request, process_mark(identifier), max_bytes)
            if forwarded is not None:
                return forwarded
        if sse is None or sse.endpoint is not endpoint:
            return plain_error(404, "No such connection: open its stream again")
        head = head_of(request)
        if head.content_type != JSON:
            return content_type_error(head.content_type)
        try:
            body = await read_body(request, self._site.rules.max_body_bytes)
            message = codec.decode(body)
            if not (isinstance(message, list) and message and sse.channel.may_batch):
                classify(message)
            token = None
            if has_token_field(message):
                token, message = pop_token(message)
                body = codec.encode(message)
            if caller is None:
                caller = await CallerCheck(request, endpoint.access, self._site.rules).identify_by_body(token)
        except RequestRefused as refused:
            return refused.answer
        except ProtocolError as error:
            return rpc_error(400, error)
        if sse.owner != caller.identity:
            return plain_error(404, "No such connection: open its stream again")
        line = f"{head.line.partition('?')[0]}?connection=*** HTTP/1.1"
        sse.channel.receive(body, caller, HttpNote(line, head.masked_headers))
        await sse.wait_until_read()
        return json_answer(202, None)

    def disconnect(self, connection: int) -> bool:
        """End one connection. Return False if the number is unknown."""
        streams = [each for each in self._open.values() if each.channel.connection == connection]
        for sse in streams:
            sse.end_event.set()
        return bool(streams)

    def close(self) -> None:
        """End every connection."""
        for sse in self._open.values():
            sse.end_event.set()


class _SseConnection:
    """Connection of one client: the event stream to the client, and its dialogue."""

    def __init__(self, request: web.BaseRequest, endpoint: Endpoint, caller: Principal) -> None:
        self.endpoint = endpoint
        self.owner = caller.identity
        """Identity of the caller that opened the connection. No other caller may post to it."""
        self.stream = EventStream(request)
        self.end_event = asyncio.Event()
        self.channel: FrameChannel = endpoint.channel(
            "sse", peer_of(request), self._write, request.headers, caller
        )
        self._request = request
        self._drain_task: asyncio.Task[None] | None = None

    async def keep_open(self) -> None:
        """Send keep-alive comments until one side ends the connection."""
        connection = connection_of(self._request)
        connection.on_lost = self.end_event.set
        try:
            while not self.end_event.is_set() and not self.stream.is_broken:
                self.stream.put(KEEP_ALIVE)
                await wait(self.end_event, KEEP_ALIVE_S)
        finally:
            connection.on_lost = None

    async def wait_until_read(self) -> None:
        """Wait until the client has read enough, so that its next message can be accepted."""
        if self._drain_task is not None:
            await asyncio.wait({self._drain_task})

    def _write(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self.stream.put(event(frame))
        if self.stream.queued > HIGH_WATER and self._drain_task is None:
            self.channel.pause()
            self._drain_task = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        try:
            await self.stream.drain()
        finally:
            self._drain_task = None
            self.channel.resume()
