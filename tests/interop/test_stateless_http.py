"""Rules for every answer of the stateless era over HTTP."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, LOG_LEVEL_KEY, VERSION_KEY, request_meta
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.site import events, serving


@pytest.mark.requirement("2.9")
def test_reserved_codes_are_used_with_their_meaning_only() -> None:
    assert {int(code) for code in ErrorCode if -32099 <= code <= -32020} == {-32020, -32021, -32022}


@pytest.mark.requirement("5.1")
async def test_sessions_are_neither_minted_nor_echoed() -> None:
    async with serving() as served:
        answer = await served.modern("tools/list", Mcp_Session_Id="made-up", Last_Event_ID="7")
        assert answer.status == 200
        assert "Mcp-Session-Id" not in answer.headers


@pytest.mark.requirement("5.14", "6.10")
async def test_lists_are_the_same_on_every_connection_and_in_the_order_of_the_server() -> None:
    async with serving() as served:
        await served.session()
        lists = []
        for _ in range(3):
            answer = await served.modern("tools/list", Connection="close")
            lists.append(await answer.read())
        names = [tool.name for tool in served.peer.server.tools]
    assert len(set(lists)) == 1
    assert [tool["name"] for tool in orjson.loads(lists[0])["result"]["tools"]] == names


@pytest.mark.requirement("5.9", "5.11")
async def test_a_stream_holds_what_belongs_to_its_request_and_is_not_to_be_buffered() -> None:
    async with serving() as served:

        async def busy(arguments: dict[str, Any], context: Context) -> str:
            await context.progress(1)
            served.peer.services.subscriptions.list_changed("sample", "prompt")
            await context.info("there are other prompts")
            return "done"

        served.peer.server.tools.replace([Tool("busy", busy, {"type": "object"})])
        meta = {"progressToken": "p", LOG_LEVEL_KEY: "info"}
        answer = await served.modern("tools/call", {"name": "busy", "arguments": {}, "_meta": meta})
        messages = events(await answer.text())
    assert answer.content_type == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no"
    told = [message.get("method") for message in messages]
    assert told == ["notifications/progress", "notifications/message", None]
    assert messages[-1]["id"] == 1 and messages[-1]["result"]["resultType"] == "complete"
    assert all("id" not in message for message in messages[:-1])


@pytest.mark.requirement("2.6")
@pytest.mark.parametrize("lacking", [VERSION_KEY, CAPABILITIES_KEY])
async def test_metadata_that_lacks_a_required_key_is_refused_with_400(lacking: str) -> None:
    meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"})
    del meta[lacking]
    message = {"jsonrpc": "2.0", "id": "m", "method": "tools/list", "params": {"_meta": meta}}
    async with serving() as served:
        answer = await served.post(message, MCP_Protocol_Version=V2026_07_28.name, Mcp_Method="tools/list")
        body = await answer.json()
    assert (answer.status, body["id"], body["error"]["code"]) == (400, "m", -32602)
    assert lacking in body["error"]["message"]
