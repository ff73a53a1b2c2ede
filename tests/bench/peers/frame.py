"""The least that answers on the same base as ours: an aiohttp handler and orjson that check nothing.

Its argument is a port. It runs on the event loop our core would take.
"""

from __future__ import annotations

import asyncio
import sys

import orjson
from aiohttp import web

from mcpdesk.hosting.loops import loop_factory


async def answer(request: web.BaseRequest) -> web.Response:
    """Echo the text of any `tools/call`; every `initialize` opens the same session."""
    message = orjson.loads(await request.read())
    if "id" not in message:
        return web.Response(status=202)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "frame"}}
        return _json(message["id"], result, {"Mcp-Session-Id": "one"})
    text = message["params"]["arguments"]["text"]
    return _json(message["id"], {"content": [{"type": "text", "text": text}], "isError": False})


def _json(identifier: object, result: object, headers: dict[str, str] | None = None) -> web.Response:
    body = orjson.dumps({"jsonrpc": "2.0", "id": identifier, "result": result})
    return web.Response(body=body, content_type="application/json", headers=headers)


async def serve(port: int) -> None:
    """Serve until killed."""
    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        loop.run(serve(int(sys.argv[1])))
