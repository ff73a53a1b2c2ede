"""Context of handlers: the parts of the request they can read."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from mcpdesk import fail
from mcpdesk.errors import RemoteProtocolError
from mcpdesk.inbox.question import Option, Page
from mcpdesk.server.asks import person_questions
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.resources import ResourceTemplate
from mcpdesk.server.offer.server import RequestView
from mcpdesk.server.offer.tool import Tool
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


async def test_a_handler_sees_the_environment_of_the_client_or_of_this_process(tmp_path: Path) -> None:
    async def places(arguments: dict[str, Any], context: Context) -> Any:
        client = context.client_environment
        return {
            "client": None if client is None else dict(client),
            "programs": context.environment,
            "folder": str(context.folder),
        }

    peer = Peer()
    peer.server.folder = tmp_path
    peer.server.tools.replace([Tool("places", places, {"type": "object"})])

    async def found() -> Any:
        peer.modern(1, "tools/call", {"name": "places"})
        return (await peer.response(1))["result"]["structuredContent"]

    own = {"PATH": "/bin"}
    peer.services.environment = lambda: own
    assert await found() == {"client": None, "programs": own, "folder": str(tmp_path)}
    peer.received.clear()
    peer.channel.dialogue.conversation.environment = {"TENANT": "acme"}
    theirs = {"TENANT": "acme"}
    assert await found() == {"client": theirs, "programs": theirs, "folder": str(tmp_path)}


async def test_a_context_that_raises_is_a_tool_error() -> None:
    async def broken(request: RequestView) -> Any:
        raise KeyError("no user")

    peer = Peer()
    peer.server.create_context = broken
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    result = (await peer.response(1))["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "echo got no context: context.py: KeyError: 'no user'"


async def test_a_context_that_refuses_says_so_in_its_own_words() -> None:
    async def refusing(request: RequestView) -> Any:
        fail("members only")

    peer = Peer()
    peer.server.create_context = refusing
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    result = (await peer.response(1))["result"]
    assert (result["isError"], result["content"][0]["text"]) == (True, "members only")


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

    monkeypatch.setattr(person_questions, "KEEP_ALIVE_S", 0.01)
    peer = Peer()
    peer.inbox.audience = 1
    peer.server.tools.replace([Tool("survey", survey, {"type": "object"})])
    peer.modern(1, "tools/call", {"name": "survey"}, progressToken="p")
    await peer.message(lambda message: len(peer.received) >= 5)
    peer.inbox.decline(1)
    assert (await peer.response(1))["result"]["content"][0]["text"] == "declined"
    told = [message["params"] for message in peer.received if "params" in message]
    amounts = [params["progress"] for params in told]
    assert amounts == sorted(set(amounts))
    assert (amounts[0], amounts[-1]) == (0.5, 0.75)
    assert told[1]["message"] == "waiting for an answer on the desk"


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


@pytest.mark.requirement("6.8")
async def test_progress_that_is_no_number_or_does_not_grow_is_not_sent() -> None:
    async def walk(arguments: dict[str, Any], context: Context) -> Any:
        for step in (1, nan, 1, inf, 0.5, 2, -inf):
            await context.progress(step, inf)
        return "walked"

    peer = Peer()
    peer.server.tools.replace([Tool("walk", walk, {"type": "object"})])
    peer.modern(1, "tools/call", {"name": "walk"}, progressToken="p")
    await peer.response(1)
    sent = [message["params"] for message in peer.received if "method" in message]
    assert sent == [{"progressToken": "p", "progress": 1}, {"progressToken": "p", "progress": 2}]


@pytest.mark.requirement("6.8")
async def test_nothing_is_heard_of_a_call_that_was_answered() -> None:
    kept: list[Context] = []

    async def brief(arguments: dict[str, Any], context: Context) -> Any:
        kept.append(context)
        await context.progress(1)
        return "done"

    peer = Peer()
    peer.server.tools.replace([Tool("brief", brief, {"type": "object"})])
    level = {"io.modelcontextprotocol/logLevel": "debug"}
    given: list[dict[str, Any]] = [{"arguments": {}}, {}]
    for number, arguments in enumerate(given, 1):
        peer.modern(number, "tools/call", {"name": "brief"} | arguments, progressToken="p", **level)
        await peer.response(number)
        await kept[-1].progress(2)
        await kept[-1].info("and another thing")
    peer.modern(3, "tools/list")
    await peer.response(3)
    heard = [message.get("id", message.get("method")) for message in peer.received]
    assert heard == ["notifications/progress", 1, "notifications/progress", 2, 3]


async def test_a_handler_tells_subscribers_that_a_resource_changed() -> None:
    async def write(arguments: dict[str, Any], context: Context) -> Any:
        context.resource_updated("note://1")
        context.resource_updated("note://2")
        return "written"

    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        return variables["id"]

    peer = Peer()
    peer.server.tools.replace([Tool("write", write, {"type": "object"})])
    peer.server.templates.replace([ResourceTemplate("note://{id}", "note", read)])
    await peer.shake_hands()
    peer.request(1, "resources/subscribe", {"uri": "note://1"})
    peer.modern("L", "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["note://2"]}})
    await peer.message(lambda message: message.get("method") == "notifications/subscriptions/acknowledged")
    peer.request(2, "tools/call", {"name": "write"})
    await peer.response(2)
    told = [m["params"] for m in peer.received if m.get("method") == "notifications/resources/updated"]
    tag = {"io.modelcontextprotocol/subscriptionId": "L"}
    assert told == [{"uri": "note://1"}, {"uri": "note://2", "_meta": tag}]
    peer.request(3, "resources/unsubscribe", {"uri": "note://1"})
    peer.received.clear()
    peer.request(4, "tools/call", {"name": "write"})
    await peer.response(4)
    assert [m["params"]["uri"] for m in peer.received if "method" in m] == ["note://2"]
    peer.channel.close()


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
async def test_progress_carries_its_text_in_every_revision_and_what_json_can(revision: str) -> None:
    async def reports(arguments: dict[str, Any], context: Context) -> str:
        await context.progress(0, inf, "begun")
        await context.progress(0.5, 3)
        await context.progress(nan)
        await context.progress(inf)
        await context.progress(2**71 / 1, 3.5, "float")
        return "done"

    peer = Peer()
    peer.server.tools.replace([Tool("reports", reports, {"type": "object"})])
    await peer.shake_hands(revision)
    peer.request(1, "tools/call", {"name": "reports", "_meta": {"progressToken": "p"}})
    await peer.response(1)
    told = [each["params"] for each in peer.received if each.get("method") == "notifications/progress"]
    assert told[:2] == [
        {"progressToken": "p", "progress": 0, "message": "begun"},
        {"progressToken": "p", "progress": 0.5, "total": 3},
    ]
    assert told[2]["progress"] == 2.0**71 and told[2]["total"] == 3.5
