"""The official SDK's echo server: over HTTP with a port as argument, over stdio without."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server: MCPServer[None] = MCPServer("echo", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Say it again."""
    return text


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
