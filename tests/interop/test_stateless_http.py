"""What holds of every answer of the stateless era over HTTP."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.jsonrpc import ErrorCode
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
async def test_lists_are_the_same_on_every_connection() -> None:
    async with serving() as served:
        await served.session()
        lists = [await (await served.modern("tools/list")).read() for _ in range(3)]
    assert len(set(lists)) == 1


@pytest.mark.requirement("5.9", "5.11")
async def test_a_stream_holds_what_belongs_to_its_request_and_is_not_to_be_buffered() -> None:
    async with serving() as served:
        answer = await served.modern(
            "tools/call", {"name": "steps", "arguments": {}}, Accept="text/event-stream"
        )
        messages = events(await answer.text())
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert [message.get("id") for message in messages if "result" in message] == [1]
    assert "result" in messages[-1]
    assert all("id" not in message for message in messages[:-1])
