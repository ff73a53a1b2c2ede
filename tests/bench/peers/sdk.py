"""The official SDK's low-level server with its defaults: over HTTP if the second
argument is a port, else over stdio.

Its first argument is the number of additional tools.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server

from tests.bench.peers.catalogue import tools


def server(more: int) -> Server[Any]:
    """A server with an echo tool, one that reports progress, and those for the list."""
    listed = [types.Tool.model_validate(tool) for tool in tools(more)]
    schemas = {tool["name"]: tool["inputSchema"] for tool in tools(more)}

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        for number in range(given.get("count", 0)):
            await context.session.report_progress(number + 1, given["count"])
        text = given.get("text", "done")
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    # Without the schemas at hand it would list all tools for every call.
    return Server("echo", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=schemas.get)


def serve(server: Server[Any], port: int) -> None:
    """Serve HTTP until killed."""
    import uvicorn

    uvicorn.run(server.streamable_http_app(), port=port, log_level="warning")


async def pipe(server: Server[Any]) -> None:
    """Serve the pipe until it ends."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())


if __name__ == "__main__":
    served = server(int(sys.argv[1]))
    if len(sys.argv) > 2:
        serve(served, int(sys.argv[2]))
    else:
        asyncio.run(pipe(served))
