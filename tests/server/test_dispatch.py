"""Requests reach their handlers, and whatever handlers do becomes an answer."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.inbox.question import Answer
from tests.support.served import Peer


async def call(peer: Peer, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool in the newest revision and return its result."""
    peer.modern("call", "tools/call", {"name": name, "arguments": arguments})
    result: dict[str, Any] = (await peer.response("call"))["result"]
    return result


async def test_text_output_becomes_text() -> None:
    result = await call(Peer(), "echo", text="héllo")
    assert result["content"] == [{"type": "text", "text": "héllo"}]
    assert "structuredContent" not in result


async def test_an_object_is_structured_and_mirrored_as_text() -> None:
    result = await call(Peer(), "person")
    assert result["structuredContent"] == {"name": "Ada"}
    assert result["content"][0]["text"] == '{"name":"Ada"}'


async def test_output_that_violates_its_schema_is_a_tool_error_naming_the_path() -> None:
    result = await call(Peer(), "person", wrong=True)
    assert result["isError"] is True
    assert "name" in result["content"][0]["text"]
    assert "violates its schema" in result["content"][0]["text"]


async def test_nothing_where_output_is_declared_is_a_tool_error() -> None:
    result = await call(Peer(), "nothing")
    assert result["isError"] is True
    assert "returned nothing" in result["content"][0]["text"]


async def test_bad_arguments_are_a_tool_error_naming_each_path() -> None:
    result = await call(Peer(), "echo", text=5)
    assert result["isError"] is True
    assert "text" in result["content"][0]["text"]


async def test_an_exception_is_a_tool_error_without_a_stack() -> None:
    peer = Peer()
    result = await call(peer, "boom")
    assert result["isError"] is True
    assert result["content"][0]["text"] == "boom failed: ValueError: broken inside"
    assert any("Traceback" in text or "raise ValueError" in text for _, _, text in peer.logged)


async def test_fail_answers_with_its_own_words_and_data() -> None:
    result = await call(Peer(), "boom", politely=True)
    assert result["content"][0]["text"] == "no such order"
    assert result["structuredContent"] == {"order": 7}


async def test_output_json_cannot_carry_is_a_tool_error() -> None:
    result = await call(Peer(), "unsendable")
    assert result["isError"] is True


async def test_a_tool_over_its_limit_is_cancelled_and_says_the_limit() -> None:
    result = await call(Peer(), "brief")
    assert result["isError"] is True
    assert "0.1 s" in result["content"][0]["text"]


async def test_waiting_for_a_person_does_not_count_against_the_limit() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "ask"})
    peer.modern(2, "tools/call", {"name": "brief"})
    await peer.response(2)
    question = peer.inbox.questions()[0]
    peer.inbox.answer(question.id, [Answer(("b",))])
    result = (await peer.response(1))["result"]
    assert result["structuredContent"] == {"state": "answered", "answers": [["b"]]}


async def test_a_question_is_withdrawn_when_its_caller_cancels() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "ask"})
    peer.modern(2, "tools/call", {"name": "brief"})
    await peer.response(2)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await peer.channel.drained()
    assert peer.inbox.questions()[0].state == "withdrawn"


async def test_progress_increases_and_needs_a_token() -> None:
    peer = Peer()
    peer.modern(1, "tools/call", {"name": "steps"}, progressToken="t")
    await peer.response(1)
    sent = [m["params"] for m in peer.received if m.get("method") == "notifications/progress"]
    assert [each["progress"] for each in sent] == [1, 2, 3]
    assert sent[0] == {"progressToken": "t", "progress": 1, "total": 3, "message": "step 1"}


async def test_the_oldest_revision_gets_no_progress_message() -> None:
    peer = Peer()
    await peer.shake_hands("2024-11-05")
    peer.request(1, "tools/call", {"name": "steps", "_meta": {"progressToken": 0}})
    await peer.response(1)
    sent = [m["params"] for m in peer.received if m.get("method") == "notifications/progress"]
    assert len(sent) == 3
    assert not any("message" in each for each in sent)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "nope"}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "echo", "arguments": [1]}),
        ("prompts/get", {"name": "nope"}),
        ("prompts/get", {"name": "summarize"}),
        ("prompts/get", {"name": "summarize", "arguments": {"topic": 5}}),
        ("tools/list", {"cursor": "forged"}),
        ("tools/list", {"cursor": 5}),
    ],
)
async def test_misshapen_params_are_invalid_params(method: str, params: dict[str, Any]) -> None:
    peer = Peer()
    peer.modern(1, method, params)
    assert (await peer.response(1))["error"]["code"] == -32602


@pytest.mark.parametrize("uri", ["resource://note", "resources/note.md"])
async def test_a_resource_is_read_by_uri_and_by_path(uri: str) -> None:
    peer = Peer()
    peer.modern(1, "resources/read", {"uri": uri})
    contents = (await peer.response(1))["result"]["contents"]
    assert contents == [{"uri": "resource://note", "text": "resource://note {}"}]


async def test_a_template_is_matched_and_its_variables_handed_over() -> None:
    peer = Peer()
    peer.modern(1, "resources/read", {"uri": "item://42"})
    contents = (await peer.response(1))["result"]["contents"]
    assert contents == [{"uri": "item://42", "mimeType": "text/plain", "text": "item://42 {'id': '42'}"}]


@pytest.mark.parametrize(("revision", "code"), [("2025-06-18", -32002), ("2026-07-28", -32602)])
async def test_a_missing_resource_has_the_code_of_the_revision(revision: str, code: int) -> None:
    peer = Peer()
    if revision == "2026-07-28":
        peer.modern(1, "resources/read", {"uri": "x://y"})
    else:
        await peer.shake_hands(revision)
        peer.request(1, "resources/read", {"uri": "x://y"})
    error = (await peer.response(1))["error"]
    assert (error["code"], error["data"]) == (code, {"uri": "x://y"})


async def test_a_prompt_becomes_a_user_message() -> None:
    peer = Peer()
    peer.modern(1, "prompts/get", {"name": "summarize", "arguments": {"topic": "bees"}})
    messages = (await peer.response(1))["result"]["messages"]
    assert messages == [{"role": "user", "content": {"type": "text", "text": "Summarize bees"}}]


async def test_pages_follow_each_other_to_the_end() -> None:
    peer = Peer()
    peer.server.limits = type(peer.server.limits)(page_size=4)
    names: list[str] = []
    params: dict[str, Any] = {}
    for number in range(3):
        peer.modern(number, "tools/list", params)
        result = (await peer.response(number))["result"]
        names += [tool["name"] for tool in result["tools"]]
        params = {"cursor": result["nextCursor"]} if "nextCursor" in result else {}
    assert names == [tool.name for tool in peer.server.tools]
    assert params == {}


async def test_switched_off_tools_are_neither_advertised_nor_callable() -> None:
    peer = Peer()
    peer.server.tools_enabled = False
    peer.modern(1, "server/discover")
    assert "tools" not in (await peer.response(1))["result"]["capabilities"]
    peer.modern(2, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    assert (await peer.response(2))["error"]["code"] == -32601
