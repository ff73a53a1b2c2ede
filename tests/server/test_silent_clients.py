"""A client that accepts questions and never answers is waited for at most for the limit."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.errors import ClientError
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import EVERYTHING, NAME
from tests.support.messages import text_of
from tests.support.served import Peer

LIMIT_S, LONG_S = 0.1, 20.0
ASKED = {
    "elicit": "elicitation/create",
    "elicit_url": "elicitation/create",
    "sample": "sampling/createMessage",
    "list_roots": "roots/list",
}
GIVEN: dict[str, tuple[Any, ...]] = {
    "elicit": ("Name?", NAME),
    "elicit_url": ("Sign in", "https://example.org/in"),
    "sample": ("Hm?",),
}


async def asks(arguments: dict[str, Any], context: Context) -> Any:
    """Ask with the method named `how`; return "answered" or the error message."""
    try:
        await getattr(context, arguments["how"])(*GIVEN.get(arguments["how"], ()))
    except ClientError as error:
        return error.message
    return "answered"


async def asks_twice(arguments: dict[str, Any], context: Context) -> Any:
    first = await asks({"how": "list_roots"}, context)
    return [first, (await context.elicit("Name?", NAME)).content["name"]]


def make_peer(how: str, limit_s: float = LIMIT_S, **tool: Any) -> Peer:
    """A server with a short limit for this kind of question, and a long one for all others."""
    is_persons = ASKED[how] == "elicitation/create"
    limits = Limits(
        tool_timeout_s=LONG_S if is_persons else limit_s, question_timeout_s=limit_s if is_persons else LONG_S
    )
    server = Server("asks", limits=limits)
    schema = {"type": "object"}
    server.tools.replace([Tool("asks", asks, schema, **tool), Tool("twice", asks_twice, schema)])
    return Peer(server)


async def open_session(peer: Peer, revision: str = "2025-11-25") -> None:
    client = {"name": "silent", "version": "1"}
    capabilities = EVERYTHING | {"tasks": {"requests": {}}}
    peer.request(
        0, "initialize", {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}
    )
    await peer.response(0)
    peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


@pytest.mark.parametrize("how", ASKED)
async def test_in_a_session_the_handler_gets_an_error_and_the_request_is_taken_back(how: str) -> None:
    peer, method = make_peer(how), ASKED[how]
    await open_session(peer)
    peer.request(1, "tools/call", {"name": "asks", "arguments": {"how": how}})
    answer = await peer.response(1)
    assert text_of(answer) == f"The client did not answer {method} within {LIMIT_S:g} s"
    (asked,) = (each for each in peer.received if each.get("method") == method)
    (cancelled,) = (each for each in peer.received if each.get("method") == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == asked["id"]
    known = len(peer.received)
    peer.send(
        {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
    )
    peer.request(2, "ping")
    await peer.response(2)
    assert len(peer.received) == known + 1


@pytest.mark.parametrize("how", ASKED)
async def test_between_two_rounds_the_handler_gets_an_error_which_a_late_client_is_told(how: str) -> None:
    peer, method = make_peer(how), ASKED[how]
    meta: dict[str, Any] = {CAPABILITIES_KEY: EVERYTHING}
    params: dict[str, Any] = {"name": "asks", "arguments": {"how": how}}
    peer.modern(1, "tools/call", params, **meta)
    first = (await peer.response(1))["result"]
    (operation,) = peer.services.rounds.parked
    assert operation._handler_task is not None
    assert (await operation._handler_task)["content"][0]["text"].startswith("The client did not answer")
    (key,) = first["inputRequests"]
    late = {"action": "accept", "content": {"name": "Ada"}}
    again = params | {"requestState": first["requestState"], "inputResponses": {key: late}}
    peer.modern(2, "tools/call", again, **meta)
    assert text_of(await peer.response(2)) == f"The client did not answer {method} within {LIMIT_S:g} s"


async def test_a_late_answer_is_none_to_the_next_question() -> None:
    peer, meta = make_peer("list_roots"), {CAPABILITIES_KEY: EVERYTHING}
    params: dict[str, Any] = {"name": "twice", "arguments": {}}
    peer.modern(1, "tools/call", params, **meta)
    first = (await peer.response(1))["result"]
    (operation,) = peer.services.rounds.parked
    while not any(each.method == "elicitation/create" for each in operation.questions().values()):
        await operation._wake_up.wait()
        operation._wake_up.clear()
    (key,) = first["inputRequests"]
    again = params | {"requestState": first["requestState"], "inputResponses": {key: {"roots": []}}}
    peer.modern(2, "tools/call", again, **meta)
    second = (await peer.response(2))["result"]
    (key,) = second["inputRequests"]
    answer = {"action": "accept", "content": {"name": "Ada"}}
    again = params | {"requestState": second["requestState"], "inputResponses": {key: answer}}
    peer.modern(3, "tools/call", again, **meta)
    assert "Ada" in text_of(await peer.response(3))


@pytest.mark.parametrize("how", ASKED)
@pytest.mark.parametrize("is_attended", [False, True])
async def test_a_task_goes_on_without_the_answer(how: str, is_attended: bool) -> None:
    for limit_s in (LIMIT_S, 10 * LIMIT_S, 100 * LIMIT_S):  # a busy machine may ask, or wait for it, too late
        told, asked, cancelled = await unanswered_task(how, limit_s, is_attended)
        expected = f"The client did not answer {ASKED[how]} within {limit_s:g} s"
        if told == expected and len(asked) == int(is_attended):
            break
    assert told == expected
    assert asked == cancelled and len(asked) == int(is_attended)


async def unanswered_task(
    how: str, limit_s: float, is_attended: bool
) -> tuple[str, list[object], list[object]]:
    """Return the result of a task whose client never answers, and the ids of its requests that were sent
    and taken back. The client waits for the result from the beginning, or from the end of the task."""
    peer, method = make_peer(how, limit_s, task="optional", timeout_s=limit_s), ASKED[how]
    await open_session(peer)
    peer.request(1, "tools/call", {"name": "asks", "arguments": {"how": how}, "task": {}})
    task = (await peer.response(1))["result"]["task"]["taskId"]
    if not is_attended:
        await peer.message(lambda each: each.get("params", {}).get("status") in ("completed", "failed"))
    peer.request(2, "tasks/result", {"taskId": task})
    told = text_of(await peer.response(2))
    asked = [each["id"] for each in peer.received if each.get("method") == method]
    cancelled = [
        each["params"]["requestId"]
        for each in peer.received
        if each.get("method") == "notifications/cancelled"
    ]
    return told, asked, cancelled
