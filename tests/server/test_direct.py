"""The direct way of a call answers as the long one does, and leaves to it what is not its own."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.direct import DirectCalls
from mcpdesk.server.direct_way import DirectWay
from mcpdesk.server.tool import Tool
from tests.support.served import Peer

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"text": "héllo \n \ue000 \x1b"}),
    ("echo", {"text": 5}),
    ("echo", {}),
    ("person", {}),
    ("person", {"wrong": True}),
    ("nothing", {}),
    ("boom", {}),
    ("boom", {"politely": True}),
    ("steps", {}),
    ("unsendable", {}),
    ("brief", {}),
    ("model", {}),
]
META = request_meta(R5, {"name": "tester", "version": "1"})


class Model:
    """A value that fails at being dumped."""

    def model_dump(self, mode: str) -> Any:
        """Raises: KeyError, always."""
        raise KeyError(mode)


async def _model(arguments: dict[str, Any], context: Any) -> Any:
    return Model()


async def answers(name: str, arguments: dict[str, Any], revision: str) -> list[bytes]:
    """Every frame that comes back for one call in an era."""
    peer = Peer()
    tools = peer.server.tools
    tools.replace([*tools, Tool("model", _model, {"type": "object"})])
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if revision == R5.name:
        peer.request("x", "tools/call", params | {"_meta": META | {"progressToken": "p"}})
    else:
        opening = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "tester", "version": "1"},
        }
        peer.request(0, "initialize", opening)
        peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        peer.request("x", "tools/call", params | {"_meta": {"progressToken": "p"}})
    await peer.response("x")
    return peer.frames


@pytest.mark.parametrize(("name", "arguments"), CALLS)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", R5.name])
async def test_both_ways_answer_alike(
    name: str, arguments: dict[str, Any], revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    directly = await answers(name, arguments, revision)
    monkeypatch.setattr(DirectWay, "answer_frame", lambda *_: None)
    assert await answers(name, arguments, revision) == directly
    monkeypatch.setattr(DirectCalls, "usual", lambda *_: None)
    assert await answers(name, arguments, revision) == directly


@pytest.mark.parametrize(
    "message",
    [
        {"id": True},
        {"id": 2**63},
        {"id": 1.5},
        {"id": None},
        {"jsonrpc": "1.0"},
        {"params": []},
        {"params": {"name": "echo"}},
        {"params": {"name": ["echo"], "arguments": {}}},
        {"params": {"name": "missing", "arguments": {}}},
        {"params": {"name": "echo", "arguments": []}},
        {"params": {"name": "echo", "arguments": {}, "task": {}}},
        {"params": {"name": "echo", "arguments": {}, "_meta": {}, "requestState": "x"}},
        {"result": {}},
    ],
)
def test_what_is_unusual_goes_the_long_way(message: dict[str, Any]) -> None:
    usual = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}}}
    direct = Peer().endpoint.dispatcher.direct
    assert direct.usual(usual) is not None
    assert direct.usual(usual | message) is None


async def test_a_tool_that_changed_is_looked_at_again() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "echo", "arguments": {"text": "a"}})
    await peer.response(1)

    async def other(arguments: dict[str, Any], context: Any) -> str:
        return "other"

    peer.server.tools.replace([Tool("echo", other, {"type": "object"}, fingerprint="2")])
    peer.modern(2, "tools/call", {"name": "echo", "arguments": {"text": "a"}})
    assert (await peer.response(2))["result"]["content"][0]["text"] == "other"


async def test_an_id_in_flight_and_a_cancelled_call_are_as_on_the_long_way() -> None:
    peer = Peer()
    for _ in range(2):
        peer.modern(1, "tools/call", {"name": "forever", "arguments": {}})
    assert "already in flight" in (await peer.response(1))["error"]["message"]
    (call,) = peer.channel.dialogue.conversation.running
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await peer.channel.drained()
    assert call.stop.startswith("cancelled by the caller")
    assert len(peer.received) == 1 and not peer.channel.dialogue.conversation.running
