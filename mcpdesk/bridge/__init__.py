"""MCP servers for chat programs: their tools in the form of a model API, and calls with checked results.

    from mcpdesk.bridge import Client, client_tools

    async with Client("http://127.0.0.1:3333/mcp/hello", api_key=key) as client:
        tools = await client_tools(client, "anthropic")
        reply = await model(messages, tools=tools.schemas)
        messages += [reply, *await tools.answer(reply)]

A target is a URL, a server folder (hosted in this process) or a `Server`. Everything is asyncio. Responses of
a server are validated before they are returned. Errors are subclasses of `CallError`: `HttpError` (an HTTP
error, or no connection), `InvalidAnswer` (an invalid response), `RpcError` (a JSON-RPC error) and
`CallTimeout`. A tool that fails does not raise; it returns a result. `sample_servers/chat` is a complete
program.
"""

from __future__ import annotations

from mcpdesk.bridge.client import Client, Target
from mcpdesk.bridge.model_schemas import ApiName, ToolSchema, ToolSchemas
from mcpdesk.bridge.result_text import format_result
from mcpdesk.bridge.tools import ClientTool, ClientTools, call_tool, client_tools, tool_schemas
from mcpdesk.errors import CallError, CallTimeout, HttpError, InvalidAnswer, RpcError

__all__ = [
    "ApiName",
    "CallError",
    "CallTimeout",
    "Client",
    "ClientTool",
    "ClientTools",
    "HttpError",
    "InvalidAnswer",
    "RpcError",
    "Target",
    "ToolSchema",
    "ToolSchemas",
    "call_tool",
    "client_tools",
    "format_result",
    "tool_schemas",
]
