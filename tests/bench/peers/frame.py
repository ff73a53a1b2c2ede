"""A minimal server on the same base as ours: an aiohttp handler and orjson, without any checks.

Its arguments are the number of additional tools, and a port. It uses the same event loop as our core.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import orjson
from aiohttp import WSMsgType, web

from mcpdesk.hosting.core_loop.core_thread import loop_factory
from tests.bench.peers.answers import answering, batches, ticks

LARGEST = 16 << 20
_OPENS = {"Mcp-Session-Id": "one"}
_EVENTS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}


class Frame:
    """A handler for everything."""

    def __init__(self, more: int) -> None:
        self._answer = answering(more)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer any request; every `initialize` opens the same session."""
        if request.method == "GET":
            return await self._socket(request)
        if request.method == "DELETE":
            return web.Response()
        message = orjson.loads(await request.read())
        if "id" not in message:
            return web.Response(status=202)
        if count := ticks(message):
            return await self._stream(request, message, count)
        headers = _OPENS if message["method"] == "initialize" else None
        return web.Response(body=self._answer(message), content_type="application/json", headers=headers)

    async def _stream(
        self, request: web.BaseRequest, message: dict[str, Any], count: int
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers=_EVENTS)
        await response.prepare(request)
        for data in batches(count, b"event: message\ndata: ", b"\n\n"):
            await response.write(data)
        await response.write(b"event: message\ndata: %b\n\n" % self._answer(message))
        await response.write_eof()
        return response

    async def _socket(self, request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp",), compress=False, max_msg_size=LARGEST)
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await socket.send_str(self._answer(orjson.loads(message.data)).decode())
        return socket


async def serve(more: int, port: int) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    request = partial(web.BaseRequest, loop=loop, client_max_size=LARGEST)
    server = web.Server(Frame(more).handle, request_factory=request, access_log=None)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        loop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
