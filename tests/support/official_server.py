"""The official SDK's server as a program: `python official_server.py http|sse` prints its port and serves."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel


class Sum(BaseModel):
    """What `add` answers."""

    sum: int


server: MCPServer = MCPServer("official", instructions="Be official.")


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def steps(ctx: Context) -> str:  # type: ignore[type-arg]
    """Report on the way."""
    for done in range(3):
        await ctx.report_progress(done, 3)
    return "done"


@server.tool()
async def refuse() -> str:
    """Always fail."""
    raise ValueError("not today")


def serve(way: str) -> None:
    """Serve on a free port of 127.0.0.1 until killed."""
    app = server.streamable_http_app() if way == "http" else server.sse_app()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    logging.disable()
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    serve(sys.argv[1])
