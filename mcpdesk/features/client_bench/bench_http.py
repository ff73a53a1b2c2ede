"""HTTP part of a bench: a listener on 127.0.0.1, and the MCP endpoint of a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from mcpdesk.errors import DeskUserError
from mcpdesk.features.client_bench.scripted_server import ScriptedReply, ScriptedServer

HOST = "127.0.0.1"
CLOSE_S = 1.0
"""Seconds for which running requests may continue when the listener closes."""
Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def listening(handler: Handler, port: int) -> AsyncIterator[str]:
    """Listen on a port of 127.0.0.1, or on a free port if `port` is 0. Provide the origin of the server.

    Requests with the name of another host are refused, so that a web page cannot use the bench.

    Raises: DeskUserError if the port cannot be used.
    """
    hosts = set[str]()

    async def check_host(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Host", "") not in hosts:
            return web.Response(status=403, text="unknown host")
        return await handler(request)

    runner = web.ServerRunner(web.Server(check_host), shutdown_timeout=CLOSE_S)
    await runner.setup()
    site = web.TCPSite(runner, HOST, port)
    try:
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", "") or str(error)
            raise DeskUserError(f"Port {port} cannot be used: {reason}.", "Omit --port.") from None
        assert site.port is not None
        hosts |= {f"{HOST}:{site.port}", f"localhost:{site.port}"}
        yield f"http://{HOST}:{site.port}"
    finally:
        await runner.cleanup()


async def answer_message(
    server: ScriptedServer, request: web.BaseRequest, observe: Callable[[Any, ScriptedReply], None]
) -> web.Response:
    """Return the answer to a request to an MCP endpoint. `observe` receives a message and its reply."""
    if request.method == "DELETE":
        return web.Response(status=200)
    if request.method != "POST":
        return web.Response(status=405, headers={"Allow": "POST, DELETE"})
    try:
        message = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        message = None
    reply = server.reply(message, {name.lower(): value for name, value in request.headers.items()})
    observe(message, reply)
    headers = {"Mcp-Session-Id": reply.session} if reply.session else {}
    if reply.message is None:
        return web.Response(status=reply.status, headers=headers)
    body = orjson.dumps(reply.message)
    return web.Response(status=reply.status, headers=headers, body=body, content_type="application/json")
