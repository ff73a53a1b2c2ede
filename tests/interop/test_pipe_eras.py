"""Both eras on one pipe: answers before a client is ready, after it cancelled, and to arrays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.protocol.revisions import V2025_11_25
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import within
from tests.support.served import Peer


@pytest.mark.requirement("1.11")
async def test_a_client_is_told_of_no_changes_before_it_says_that_it_is_ready() -> None:
    peer = Peer()
    peer.request(0, "initialize", {"protocolVersion": V2025_11_25.name, "capabilities": {}})
    await peer.response(0)
    peer.server.tools.replace([])
    peer.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    peer.request(1, "ping")
    await peer.response(1)
    peer.server.prompts.replace([])
    await peer.message(lambda message: message.get("method") == "notifications/prompts/list_changed")
    told = [message["method"] for message in peer.received if "method" in message]
    assert told == ["notifications/prompts/list_changed"]


@pytest.mark.requirement("3.6")
async def test_after_a_cancellation_a_stateless_request_is_not_heard_of_again() -> None:
    began, over = asyncio.Event(), asyncio.Event()

    async def stubborn(arguments: dict[str, Any], context: Context) -> str:
        await context.progress(1)
        try:
            began.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await context.progress(2)
            await context.error("not yet")
        over.set()
        return "after all"

    peer = Peer()
    peer.server.tools.replace([Tool("stubborn", stubborn, {"type": "object"})])
    level = {"io.modelcontextprotocol/logLevel": "debug"}
    peer.modern(5, "tools/call", {"name": "stubborn"}, progressToken="p", **level)
    async with within():
        await began.wait()
        peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        await over.wait()
        await peer.channel.drained()
    peer.modern(6, "tools/list")
    await peer.response(6)
    assert [message.get("method", message.get("id")) for message in peer.received] == [
        "notifications/progress",
        6,
    ]
    assert peer.channel.dialogue.is_idle
