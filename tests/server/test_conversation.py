"""One peer talking: eras, handshakes, errors, calls in flight."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.server.offer.server import Limits
from tests.support.patience import within
from tests.support.served import Peer, make_server


@pytest.mark.requirement("1.10")
async def test_an_unknown_revision_is_answered_with_our_newest_handshake_one() -> None:
    peer = Peer()
    assert (await peer.shake_hands("2099-01-01"))["result"]["protocolVersion"] == "2025-11-25"


async def test_a_second_handshake_is_refused() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(9, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert (await peer.response(9))["error"]["code"] == -32600


async def test_a_request_before_any_handshake_is_told_what_to_do() -> None:
    peer = Peer()
    peer.request(1, "tools/list")
    error = (await peer.response(1))["error"]
    assert error["code"] == -32602
    assert "2026-07-28" in error["message"]
    peer.request(2, "ping")
    assert (await peer.response(2))["result"] == {}


@pytest.mark.requirement("2.12")
async def test_the_stateless_era_needs_no_handshake_and_leaves_no_trace() -> None:
    peer = Peer()
    peer.modern(1, "server/discover")
    discovered = (await peer.response(1))["result"]
    assert discovered["supportedVersions"][0] == "2026-07-28"
    assert discovered["resultType"] == "complete"
    peer.modern(2, "tools/call", {"name": "echo", "arguments": {"text": "hi"}})
    called = (await peer.response(2))["result"]
    assert called["content"] == [{"type": "text", "text": "hi"}]
    assert called["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "sample"
    peer.request(3, "tools/list")
    assert (await peer.response(3))["error"]["code"] == -32602


@pytest.mark.requirement("1.1", "1.2")
async def test_both_eras_share_one_pipe() -> None:
    peer = Peer()
    await peer.shake_hands("2025-06-18")
    peer.modern(1, "tools/list")
    peer.request(2, "tools/list")
    assert "resultType" in (await peer.response(1))["result"]
    assert "resultType" not in (await peer.response(2))["result"]


@pytest.mark.requirement("1.3")
async def test_an_unserved_stateless_version_lists_the_served_ones() -> None:
    peer = Peer()
    meta = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    peer.modern(1, "tools/list", None, **meta)
    error = (await peer.response(1))["error"]
    assert error["code"] == -32022
    assert error["data"] == {
        "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
        "requested": "2099-01-01",
    }


@pytest.mark.requirement("2.10")
@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "nope"],
)
async def test_methods_the_stateless_era_dropped_do_not_exist_there(method: str) -> None:
    peer = Peer()
    peer.modern(1, method)
    assert (await peer.response(1))["error"]["code"] == -32601


async def test_dotted_names_work_for_handshake_peers_only() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(1, "tools.list")
    assert "result" in await peer.response(1)
    peer.modern(2, "tools.list")
    assert (await peer.response(2))["error"]["code"] == -32601


@pytest.mark.requirement("2.3", "2.4")
async def test_batches_belong_to_one_revision() -> None:
    peer = Peer()
    await peer.shake_hands("2025-03-26")
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": "x"}},
        },
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    peer.send(batch)
    assert (await peer.response(1))["result"] == {}
    assert (await peer.response(2))["result"]["isError"] is False
    assert (await peer.response(3))["error"]["code"] == -32600
    peer.send([])
    assert await peer.message(
        lambda message: "id" not in message and message.get("error", {}).get("code") == -32600
    )


@pytest.mark.requirement("2.2")
async def test_notifications_are_never_answered() -> None:
    peer = Peer()
    peer.send({"jsonrpc": "2.0", "method": "notifications/whatever"})
    peer.send({"jsonrpc": "2.0", "method": "tools/list"})
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": ["misshapen"]})
    peer.request(1, "ping")
    await peer.response(1)
    assert len(peer.received) == 1


@pytest.mark.parametrize("named", [True, 1.0, None, [1], "1"])
async def test_a_cancellation_that_names_no_request_in_flight_ends_none(named: Any) -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(1, "tools/call", {"name": "forever"})
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": named}})
    assert [call.id for call in peer.channel.dialogue.conversation.running if not call.stop] == [1]
    peer.channel.close()


@pytest.mark.requirement("6.7")
async def test_an_unknown_log_level_is_refused_after_an_unknown_method() -> None:
    peer = Peer()
    level = {"io.modelcontextprotocol/logLevel": "loud"}
    peer.modern(1, "nope", None, **level)
    assert (await peer.response(1))["error"]["code"] == -32601
    for number, method in ((2, "tools/list"), (3, "server/discover")):
        peer.modern(number, method, None, **level)
        error = (await peer.response(number))["error"]
        assert error["code"] == -32602 and "'loud'" in error["message"]


@pytest.mark.requirement("3.6")
@pytest.mark.parametrize("word", ["notifications/cancelled", "notifications/canceled"])
async def test_a_cancelled_request_gets_no_response(word: str) -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(5, "tools/call", {"name": "forever"})
    peer.send({"jsonrpc": "2.0", "method": word, "params": {"requestId": 5}})
    peer.request(6, "ping")
    await peer.response(6)
    await peer.channel.drained()
    assert not [message for message in peer.received if message.get("id") == 5]
    assert peer.channel.dialogue.is_idle


async def test_a_closed_channel_ends_its_calls() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(5, "tools/call", {"name": "forever"})
    peer.channel.close()
    await peer.channel.drained()
    assert peer.channel.dialogue.is_idle
    assert not peer.endpoint.dialogues


@pytest.mark.requirement("6.7")
async def test_log_level_decides_what_a_session_hears() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.request(1, "tools/call", {"name": "steps"})
    await peer.response(1)
    assert [m for m in peer.received if m.get("method") == "notifications/message"]
    peer.received.clear()
    peer.request(2, "logging/setLevel", {"level": "error"})
    peer.request(3, "tools/call", {"name": "steps"})
    await peer.response(3)
    assert not [m for m in peer.received if m.get("method") == "notifications/message"]
    peer.request(4, "logging/setLevel", {"level": "loud"})
    assert (await peer.response(4))["error"]["code"] == -32602


@pytest.mark.requirement("6.6")
async def test_the_stateless_era_hears_logs_only_on_request() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "steps"})
    await peer.response(1)
    assert not [m for m in peer.received if "method" in m]
    peer.modern(2, "tools/call", {"name": "steps"}, **{"io.modelcontextprotocol/logLevel": "info"})
    await peer.response(2)
    assert [m["params"]["data"] for m in peer.received if "method" in m] == ["starting"]


@pytest.mark.requirement("1.11", "5.12")
async def test_open_sessions_and_listeners_hear_of_changes() -> None:
    peer = Peer()
    await peer.shake_hands()
    peer.modern("L", "subscriptions/listen", {"notifications": {"toolsListChanged": True, "bogus": True}})
    acknowledged = await peer.message(lambda m: m.get("method") == "notifications/subscriptions/acknowledged")
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    peer.server.tools.replace(list(peer.server.tools)[:2])
    peer.server.prompts.replace([])
    await peer.message(lambda m: m.get("method") == "notifications/prompts/list_changed")
    changes: list[tuple[str, Any]] = [
        (m["method"], (m.get("params") or {}).get("_meta"))
        for m in peer.received
        if m.get("method", "").endswith("list_changed")
    ]
    tag = {"io.modelcontextprotocol/subscriptionId": "L"}
    assert ("notifications/tools/list_changed", None) in changes
    assert ("notifications/tools/list_changed", tag) in changes
    assert ("notifications/prompts/list_changed", None) in changes
    assert ("notifications/prompts/list_changed", tag) not in changes
    peer.channel.close()
    await peer.channel.drained()
    assert not len(peer.services.subscriptions)


@pytest.mark.requirement("5.12")
async def test_a_core_that_stops_ends_a_listener_with_its_result_and_then_a_cancellation() -> None:
    peer = Peer()
    peer.modern(7, "subscriptions/listen", {"notifications": {"promptsListChanged": True}})
    await peer.message(lambda m: m.get("method") == "notifications/subscriptions/acknowledged")
    peer.received.clear()
    peer.services.subscriptions.close()
    await peer.message(lambda m: m.get("method") == "notifications/cancelled")
    result, cancelled = peer.received
    assert (result["id"], result["result"]["resultType"]) == (7, "complete")
    assert result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 7
    assert cancelled["params"] == {"requestId": 7}


@pytest.mark.requirement("1.12")
async def test_a_server_without_tools_tells_nobody_of_changes_to_them() -> None:
    server = make_server()
    server.tools_enabled = False
    peer = Peer(server)
    assert "tools" not in (await peer.shake_hands())["result"]["capabilities"]
    wanted = {"toolsListChanged": True, "promptsListChanged": True}
    peer.modern("L", "subscriptions/listen", {"notifications": wanted})
    acknowledged = await peer.message(lambda m: m.get("method") == "notifications/subscriptions/acknowledged")
    assert acknowledged["params"]["notifications"] == {"promptsListChanged": True}
    server.tools.replace([])
    server.prompts.replace([])
    await peer.message(lambda m: m.get("method") == "notifications/prompts/list_changed")
    told = [m["method"] for m in peer.received if m.get("method", "").endswith("list_changed")]
    assert told == ["notifications/prompts/list_changed"] * 2
    peer.channel.close()


def calling(identifier: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


async def test_the_members_of_a_batch_run_side_by_side_and_one_can_cancel_another() -> None:
    peer = Peer()
    await peer.shake_hands("2025-03-26")
    cancelling = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    peer.send([calling(1, "forever"), calling(2, "echo", text="x"), cancelling])
    assert (await peer.response(2))["result"]["content"][0]["text"] == "x"
    await peer.channel.drained()
    assert not [message for message in peer.received if message.get("id") == 1]


async def test_a_batch_of_more_than_may_be_in_flight_is_refused_whole() -> None:
    server = make_server()
    server.limits = Limits(in_flight=3)
    peer = Peer(server)
    await peer.shake_hands("2025-03-26")
    peer.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(4)])
    refused = await peer.message(lambda message: "error" in message)
    assert refused["error"]["code"] == -32600 and "4 messages" in refused["error"]["message"]
    peer.send([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in range(1, 4)])
    assert [(await peer.response(number))["result"] for number in range(1, 4)] == [{}, {}, {}]


async def test_a_batch_of_what_needs_no_answer_gets_none() -> None:
    peer = Peer()
    await peer.shake_hands("2025-03-26")
    peer.frames.clear()
    peer.send([{"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 9, "result": {}}])
    peer.request(1, "ping")
    await peer.response(1)
    assert len(peer.frames) == 1


async def test_a_closed_channel_ends_a_whole_batch() -> None:
    peer = Peer()
    await peer.shake_hands("2025-03-26")
    peer.send([calling(1, "forever"), calling(2, "forever")])
    await asyncio.sleep(0)
    peer.channel.close()
    async with within():
        await peer.channel.drained()
    assert peer.channel.dialogue.is_idle


@pytest.mark.requirement("12.11")
async def test_too_many_requests_in_flight_are_refused_and_the_others_go_on() -> None:
    server = make_server()
    server.limits = Limits(in_flight=2)
    peer = Peer(server)
    await peer.shake_hands()
    for number in (1, 2, 3):
        peer.request(number, "tools/call", {"name": "forever"})
    assert "max_in_flight" in (await peer.response(3))["error"]["message"]
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    peer.request(4, "ping")
    assert (await peer.response(4))["result"] == {}
    peer.channel.close()
