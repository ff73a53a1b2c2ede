"""The official SDK's server as a program: `python official_server.py http|session|sse` prints its port and
serves. `session` is `http` without the stateless revision; `stdio` serves over its pipes.
"""

from __future__ import annotations

import logging
import socket
import sys
from typing import Annotated, Any

import uvicorn
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel


class Sum(BaseModel):
    """Result of `add`."""

    sum: int


class Person(BaseModel):
    """Form of `ask`."""

    name: str


async def who() -> Elicit[Person]:
    """The question, in either era."""
    return Elicit("Who are you?", Person)


server: MCPServer = MCPServer("official", instructions="Be official.")


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
async def steps(ctx: Context) -> str:
    """Report on the way."""
    for done in range(3):
        await ctx.report_progress(done, 3)
    return "done"


@server.tool()
async def refuse() -> str:
    """Always fail."""
    raise ValueError("not today")


@server.tool()
async def ask(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    """Ask who it is."""
    return f"{answer.action} {answer.data.name}" if answer.action == "accept" else answer.action


def without_stateless(app: Any) -> Any:
    """The application for the handshake era only: requests with `Mcp-Method` get status 400."""

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        if b"mcp-method" not in dict(scope.get("headers", ())):
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return refusing


def serve(way: str) -> None:
    """Serve on a free port of 127.0.0.1 until killed."""
    app: Any = server.sse_app() if way == "sse" else server.streamable_http_app()
    if way == "session":
        app = without_stateless(app)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    logging.disable()
    uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        serve(sys.argv[1])
