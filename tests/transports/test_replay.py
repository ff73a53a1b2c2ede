"""State of a client is read from the passing lines, and repeated to its next server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpdesk.transports.replay import UNCERTAIN, ClientState, Replay, is_request


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def opened(**capabilities: Any) -> ClientState:
    """A client after its handshake."""
    client_state = ClientState()
    client_state.client_sent(line(id=0, method="initialize", params={"protocolVersion": "2025-06-18"}))
    client_state.server_sent(line(id=0, result={"protocolVersion": "2025-06-18"}))
    client_state.client_sent(line(method="notifications/initialized"))
    return client_state


def hello(number: int = 1, **capabilities: Any) -> bytes:
    """Answer of a server to the repeated handshake."""
    result = {"protocolVersion": "2025-06-18", "capabilities": capabilities}
    return line(id=f"mcpdesk-{number}", result=result)


def sent(replay: Replay) -> list[dict[str, Any]]:
    lines, replay.to_server = replay.to_server, []
    return [json.loads(each) for each in lines]


@pytest.mark.parametrize("identifier", [5, "5", 'a,"b', "a,", "x" * 3000, 1.5, "ä"])
@pytest.mark.parametrize("spaced", [False, True])
def test_answer_is_found_to_its_request_whatever_the_id(identifier: object, spaced: bool) -> None:
    client_state = ClientState()
    client_state.client_sent(json.dumps({"id": identifier, "method": "ping", "jsonrpc": "2.0"}).encode())
    assert client_state.is_busy
    answer = {"jsonrpc": "2.0", "id": identifier, "result": {"id": 7, "method": "no"}}
    client_state.server_sent(
        json.dumps(answer, separators=None if spaced else (",", ":"), ensure_ascii=False).encode()
    )
    assert not client_state.is_busy and not client_state.server_requests


def test_requests_of_both_sides_are_told_apart_though_their_ids_are_the_same() -> None:
    client_state = opened()
    client_state.client_sent(line(id=1, method="ping"))
    client_state.server_sent(line(id=1, method="roots/list", params={}))
    client_state.client_sent(line(id=1, result={"roots": []}))
    assert (list(client_state.in_flight), list(client_state.server_requests)) == ([1], [])
    client_state.server_sent(line(id=1, error={"code": 1, "message": ""}))
    assert not client_state.in_flight


def test_cancelled_request_is_waited_for_no_more() -> None:
    client_state = ClientState()
    client_state.client_sent(line(id=1, method="tools/call", params={"name": "x"}))
    client_state.client_sent(line(method="notifications/cancelled", params={"requestId": 1}))
    assert not client_state.is_busy


def test_batch_counts_one_by_one_and_what_is_no_message_not_at_all() -> None:
    client_state = ClientState()
    client_state.client_sent(b'[{"id":1,"method":"ping"},{"id":2,"method":"ping"},5]')
    for nonsense in (b"{", b"5", b"null", b'{"id":[],"method":"x"}', b'{"id":null,"method":"x"}', b"\xff"):
        client_state.client_sent(nonsense)
        client_state.server_sent(nonsense)
        assert not is_request(nonsense)
    assert list(client_state.in_flight) == [1, 2]
    client_state.server_sent(b'[{"id":1,"result":{}},{"id":2,"error":{}}]')
    assert not client_state.in_flight


def test_only_what_a_server_accepted_is_repeated() -> None:
    client_state = opened()
    asked = [
        ("logging/setLevel", {"level": "nonsense"}, False),
        ("resources/subscribe", {"uri": "a://1"}, True),
        ("resources/subscribe", {"uri": "a://2"}, True),
        ("resources/unsubscribe", {"uri": "a://1"}, True),
        ("resources/subscribe", {"uri": "a://3"}, False),
    ]
    for number, (method, params, is_accepted) in enumerate(asked, 1):
        client_state.client_sent(line(id=number, method=method, params=params))
        client_state.server_sent(
            line(id=number, **({"result": {}} if is_accepted else {"error": {"code": 1}}))
        )
    replay = Replay(client_state)
    assert [each["method"] for each in sent(replay)] == ["initialize"]
    replay.receive(hello())
    told = sent(replay)
    assert [each["method"] for each in told] == ["notifications/initialized", "resources/subscribe"]
    assert told[1]["params"] == {"uri": "a://2"}
    replay.receive(line(method="notifications/message", params={"data": "on the way"}))
    replay.receive(line(id=told[1]["id"], result={}))
    assert replay.is_done and [json.loads(each)["method"] for each in replay.to_client] == [
        "notifications/message"
    ]


def test_unanswered_calls_are_repeated_if_their_tools_allow_it_on_whatever_page_they_are() -> None:
    client_state = opened()
    for number, name in enumerate(("reads", "writes", "unknown"), 1):
        client_state.client_sent(line(id=number, method="tools/call", params={"name": name}))
    client_state.client_sent(line(id=4, method="prompts/get", params={"name": "p"}))
    replay = Replay(client_state)
    sent(replay)
    replay.receive(hello(tools={"listChanged": True}))
    tools = [{"name": "writes", "annotations": {"idempotentHint": False}}]
    replay.receive(line(id=sent(replay)[1]["id"], result={"tools": tools, "nextCursor": "c"}))
    (asked,) = sent(replay)
    assert asked["params"] == {"cursor": "c"} and not replay.is_done
    tools = [{"name": "reads", "annotations": {"readOnlyHint": True}}]
    replay.receive(line(id=asked["id"], result={"tools": tools}))
    assert replay.is_done and [each["id"] for each in sent(replay)] == [1, 4]
    told = [json.loads(each) for each in replay.to_client]
    assert [each["error"]["message"] for each in told[:2]] == [UNCERTAIN, UNCERTAIN]
    assert told[2]["method"] == "notifications/tools/list_changed"
    assert list(client_state.in_flight) == [1, 4]


def test_ids_of_ours_are_none_of_the_clients() -> None:
    client_state = opened()
    client_state.client_sent(line(id="mcpdesk-1", method="ping"))
    replay = Replay(client_state)
    assert sent(replay)[0]["id"] == "mcpdesk-1-"


@pytest.mark.parametrize(
    "answer",
    [
        b"mcpdesk: no mode 'review'",
        line(id="mcpdesk-1", error={"code": -32600, "message": "no"}),
        line(id="mcpdesk-1", result={"protocolVersion": "2024-11-05"}),
    ],
)
def test_server_that_cannot_go_on_is_said_to_fail(answer: bytes) -> None:
    replay = Replay(opened())
    replay.receive(answer)
    assert replay.failure and not replay.is_done


def test_client_that_said_nothing_needs_no_repeating() -> None:
    replay = Replay(ClientState())
    assert replay.is_done and not replay.to_server and not replay.to_client
