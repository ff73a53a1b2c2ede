"""Questions to clients over HTTP: on the stream of the call, or as the result."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from tests.support.asked_client import ADA, AskingServer
from tests.support.site import Served, events, serving

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "greet"}}


def hosting(site: Served) -> AskingServer:
    asking = AskingServer()
    asking.server.name = "sample"
    site.hosted = HostedEndpoint(asking.server, site.peer.services, site.recorder)
    return asking


async def opened(site: Served) -> dict[str, str]:
    """Shake hands as a client that shows forms; returns the headers of what follows."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    answer = await site.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    headers = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"], "MCP_Protocol_Version": "2025-11-25"}
    await site.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
    return headers


async def test_the_question_comes_on_the_stream_and_the_answer_is_accepted() -> None:
    async with serving() as site:
        hosting(site)
        headers = await opened(site)
        call = await site.post(CALL, **headers)
        assert call.content_type == "text/event-stream"
        question: dict[str, Any] = {}
        async for line in call.content:
            if line.startswith(b"data: {"):
                question = orjson.loads(line[6:])
                break
        assert question["method"] == "elicitation/create"
        stranger = await opened(site)
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": ADA}
        forged = {"action": "accept", "content": {"name": "Mallory"}}
        assert (await site.post(reply | {"result": forged}, **stranger)).status == 202
        taken = await site.post(reply, **headers)
        assert taken.status == 202 and await taken.read() == b""
        (answer,) = events((await call.read()).decode())
        assert answer["id"] == 7 and answer["result"]["content"][0]["text"] == "Hello, Ada!"


async def test_a_client_that_takes_no_stream_is_not_asked() -> None:
    async with serving() as site:
        hosting(site)
        headers = await opened(site)
        call = await site.post(CALL, **headers, Accept="application/json")
        answer = await call.json()
        assert answer["result"]["isError"] and "accepts no stream" in answer["result"]["content"][0]["text"]


async def stateless(site: Served, capabilities: dict[str, Any], **more: Any) -> tuple[int, dict[str, Any]]:
    meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"}) | {CAPABILITIES_KEY: capabilities}
    message = {**CALL, "params": {"name": "greet", "_meta": meta} | more}
    routing = {"MCP_Protocol_Version": V2026_07_28.name, "Mcp_Method": "tools/call", "Mcp_Name": "greet"}
    answer = await site.post(message, **routing)
    return answer.status, await answer.json()


@pytest.mark.requirement("2.7", "7.3")
async def test_what_cannot_be_asked_or_resumed_is_refused_with_400() -> None:
    async with serving() as site:
        hosting(site)
        status, missing = await stateless(site, {})
        assert (status, missing["error"]["code"]) == (400, -32021)
        status, tampered = await stateless(site, {"elicitation": {}}, requestState="v1.e30.x")
        assert (status, tampered["error"]["code"]) == (400, -32602)
