"""What handlers see of the request behind them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.inbox.question import Option, Page
from mcpdesk.server import context as context_module
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


async def test_waiting_for_a_person_hides_no_progress_of_the_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    async def survey(arguments: dict[str, Any], context: Context) -> Any:
        await context.progress(0.5, 1)
        question = await context.ask([Page("Which?", options=(Option("a"), Option("b")))])
        await context.progress(0.75, 1)
        return question.state.value

    monkeypatch.setattr(context_module, "WAITING_BEAT_S", 0.01)
    peer = Peer()
    peer.server.tools.replace([Tool("survey", survey, {"type": "object"})])
    peer.modern(1, "tools/call", {"name": "survey"}, progressToken="p")
    await peer.until(lambda message: len(peer.received) >= 5)
    peer.inbox.decline(1)
    assert (await peer.response(1))["result"]["content"][0]["text"] == "declined"
    told = [message["params"] for message in peer.received if "params" in message]
    amounts = [params["progress"] for params in told]
    assert amounts == sorted(set(amounts))
    assert (amounts[0], amounts[-1]) == (0.5, 0.75)
    assert told[1]["message"] == "waiting for an answer on the desk, 0 s"


@pytest.mark.parametrize("token", [True, 1.5, None, [], {}])
async def test_a_token_that_is_none_asks_for_no_progress(token: Any) -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "steps"}, progressToken=token)
    await peer.response(1)
    assert [message for message in peer.received if "method" in message] == []


async def test_log_lines_and_failures_carry_the_callers_trace() -> None:
    peer = Peer()
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    for identifier, (name, meta) in enumerate([("steps", parent), ("boom", parent), ("steps", "made up")]):
        peer.modern(identifier, "tools/call", {"name": name}, traceparent=meta)
        await peer.response(identifier)
    assert peer.traces == [parent[3:35], parent[3:35], ""]
