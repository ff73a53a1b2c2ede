"""Calls of tools: arguments, outputs, failures, limits, waiting for a person."""

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


@pytest.mark.requirement("6.4")
async def test_an_object_is_structured_and_mirrored_as_text() -> None:
    result = await call(Peer(), "person")
    assert result["structuredContent"] == {"name": "Ada"}
    assert result["content"][0]["text"] == '{"name":"Ada"}'


@pytest.mark.requirement("6.4")
async def test_output_that_violates_its_schema_is_a_tool_error_naming_the_path() -> None:
    result = await call(Peer(), "person", wrong=True)
    assert result["isError"] is True
    assert "name" in result["content"][0]["text"]
    assert "violates its schema" in result["content"][0]["text"]


async def test_nothing_where_output_is_declared_is_a_tool_error() -> None:
    result = await call(Peer(), "nothing")
    assert result["isError"] is True
    assert "returned nothing" in result["content"][0]["text"]


@pytest.mark.requirement("6.3")
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
    peer.inbox.audience = 1
    peer.modern(1, "tools/call", {"name": "ask"})
    peer.modern(2, "tools/call", {"name": "brief"})
    await peer.response(2)
    question = peer.inbox.questions()[0]
    peer.inbox.answer(question.id, [Answer(("b",))])
    result = (await peer.response(1))["result"]
    assert result["structuredContent"] == {"state": "answered", "answers": [["b"]]}


async def test_a_question_is_withdrawn_when_its_caller_cancels() -> None:
    peer = Peer()
    peer.inbox.audience = 1
    peer.modern(1, "tools/call", {"name": "ask"})
    peer.modern(2, "tools/call", {"name": "brief"})
    await peer.response(2)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await peer.channel.drained()
    assert peer.inbox.questions()[0].state == "withdrawn"
