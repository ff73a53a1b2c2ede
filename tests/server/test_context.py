"""What handlers see of the request behind them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.server.context import Context, RequestView
from mcpdesk.server.tool import Tool
from tests.support.served import Peer
from tests.support.site import serving


async def reveal(arguments: dict[str, Any], context: Context) -> Any:
    return {"context": context.context, "peer": context.peer, "transport": context.request.transport}


async def make(request: RequestView) -> Any:
    return {"user": request.headers.get("x-user-id"), "environment": sorted(request.environment)}


async def test_the_same_shape_on_a_pipe_and_over_http() -> None:
    tool = Tool("reveal", reveal, {"type": "object"})
    async with serving() as served:
        server = served.peer.server
        server.tools.replace([tool])
        server.create_context = make
        answer = await served.modern("tools/call", {"name": "reveal"}, X_User_Id="u1")
        shown = (await answer.json())["result"]["structuredContent"]
        assert shown == {
            "context": {"user": "u1", "environment": []},
            "peer": "tester 1",
            "transport": "http",
        }
    peer = Peer()
    peer.server.tools.replace([tool])
    peer.server.create_context = make
    peer.modern(1, "tools/call", {"name": "reveal"})
    shown = (await peer.response(1))["result"]["structuredContent"]
    assert shown["context"] == {"user": None, "environment": []}


async def test_a_context_that_raises_is_a_tool_error() -> None:
    async def broken(request: RequestView) -> Any:
        raise KeyError("no user")

    peer = Peer()
    peer.server.create_context = broken
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    result = (await peer.response(1))["result"]
    assert result["isError"] is True
    assert "no user" in result["content"][0]["text"]


async def test_a_handler_cannot_invent_a_log_level() -> None:
    async def loud(arguments: dict[str, Any], context: Context) -> Any:
        with pytest.raises(RemoteProtocolError, match="debug"):
            await context.log("loud", "x")
        return "ok"

    peer = Peer()
    peer.server.tools.replace([Tool("loud", loud, {"type": "object"})])
    peer.modern(1, "tools/call", {"name": "loud"})
    assert (await peer.response(1))["result"]["content"][0]["text"] == "ok"
