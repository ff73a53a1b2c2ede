"""A handler that blocks the loop cannot be ended; when it ends too late, its call timed out all the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import Resource
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer

LIMIT_S, BLOCK_S = 0.05, 0.1


async def blocking(*_: Any) -> str:
    """Hold up the loop, which is what is tested, and finish as if nothing had happened."""
    time.sleep(BLOCK_S)  # noqa: ASYNC251 (hosted code does so)
    return "finished"


async def quick(_arguments: dict[str, Any], _context: Context) -> str:
    return "quick"


def make_peer(**tool: Any) -> Peer:
    server = Server("blocks", limits=Limits(tool_timeout_s=LIMIT_S))
    server.tools.replace(
        [Tool("blocks", blocking, {"type": "object"}, **tool), Tool("quick", quick, {"type": "object"})]
    )
    server.resources.replace([Resource("x://a", "a", blocking)])
    server.prompts.replace([Prompt("p", blocking)])
    return Peer(server)


CALL = {"name": "blocks", "arguments": {}}


def is_told(answer: dict[str, Any]) -> bool:
    """Whether an answer says so, as a result or as an error."""
    told = f"not finished within its limit of {LIMIT_S:g} s"
    if "error" in answer:
        return told in answer["error"]["message"]
    return answer["result"]["isError"] and told in answer["result"]["content"][0]["text"]


async def test_in_a_session() -> None:
    peer = make_peer()
    await peer.shake_hands()
    peer.request(1, "tools/call", CALL)
    assert is_told(await peer.response(1))


async def test_without_a_session() -> None:
    peer = make_peer()
    peer.modern(1, "tools/call", CALL)
    assert is_told(await peer.response(1))


async def test_with_a_client_that_can_be_asked_in_rounds() -> None:
    peer = make_peer()
    meta: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
    peer.modern(1, "tools/call", CALL, **meta)
    assert is_told(await peer.response(1))


async def test_as_a_task() -> None:
    peer = make_peer(task="optional", timeout_s=LIMIT_S)
    await peer.shake_hands()
    peer.request(1, "tools/call", CALL | {"task": {}})
    task = (await peer.response(1))["result"]["task"]
    peer.request(2, "tasks/result", {"taskId": task["taskId"]})
    assert is_told(await peer.response(2))


@pytest.mark.parametrize(
    ("method", "params"), [("resources/read", {"uri": "x://a"}), ("prompts/get", {"name": "p"})]
)
async def test_resources_and_prompts(method: str, params: dict[str, Any]) -> None:
    peer = make_peer()
    await peer.shake_hands()
    peer.request(1, method, params)
    assert is_told(await peer.response(1))


async def test_calls_that_came_with_it_are_not_blamed() -> None:
    peer = make_peer()
    await peer.shake_hands()
    peer.request(1, "tools/call", CALL)
    peer.request(2, "tools/call", {"name": "quick", "arguments": {}})
    assert is_told(await peer.response(1))
    assert (await peer.response(2))["result"]["content"][0]["text"] == "quick"
