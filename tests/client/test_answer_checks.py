"""Answers are used only if they are valid."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.client.answer_checks import checked_result, question_fault, without_invalid_items
from mcpdesk.client.transport import ServerReply, excerpt
from mcpdesk.errors import InvalidAnswer, RpcError
from mcpdesk.protocol.catalogue.result_faults import result_faults


def response(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1} | members


def value(message: Any, identifier: Any = 1) -> dict[str, Any]:
    return ServerReply(message).response(identifier).value()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (None, "no JSON-RPC answer|an empty answer"),
        ([response(result={})], "no JSON-RPC answer|an empty answer"),
        ({"id": 1, "result": {}}, "not a JSON-RPC message"),
        (response(id=2, result={}), "to request 2, not to 1"),
        (response(id="1", result={}), "to request '1', not to 1"),
        (response(id=True, result={}), "to request True"),
        (response(id=1.0, result={}), "to request 1.0"),
        (response(id=None, result={}), "has no id"),
        (response(), "an empty answer"),
        (response(result={}, error={"code": 1, "message": "x"}), "either a result or an error"),
        (response(error="no"), "no code or no message"),
        (response(error={"code": "1", "message": "x"}), "no code or no message"),
        (response(error={"code": True, "message": "x"}), "no code or no message"),
        (response(error={"code": 1}), "no code or no message"),
        (response(result=[]), "not an object"),
        (response(result=None), "not an object"),
        (response(result={"resultType": "input_required"}), "'input_required', which was not offered"),
        (response(result={"resultType": 5}), "of type '5'"),
    ],
)
def test_anything_else_is_an_invalid_answer(message: Any, reason: str) -> None:
    with pytest.raises(InvalidAnswer, match=reason):
        value(message)


@pytest.mark.parametrize("identifier", [1, None])
def test_errors_carry_code_message_and_data(identifier: Any) -> None:
    error = {"code": -32602, "message": "no\x1b[31m\nsuch tool", "data": {"a": 1}}
    with pytest.raises(RpcError) as caught:
        value(response(id=identifier, error=error))
    assert (caught.value.code, caught.value.data) == (-32602, {"a": 1})
    assert str(caught.value) == "no␛[31m such tool (-32602)"


def test_excerpt_is_one_short_line_that_shows_control_characters() -> None:
    assert excerpt(b"a\r\n\tb\x00\x1b\xff") == "a b␀␛\ufffd"
    assert len(excerpt("x " * 5000)) == 300


def tool(**changes: Any) -> dict[str, Any]:
    return {"name": "greet", "inputSchema": {"type": "object"}} | changes


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (None, "no list called tools"),
        ({}, "no list called tools"),
        ([5], "tools 0 is not an object"),
        ([tool(), tool(name="")], "tools 1 has no name"),
        ([tool(name=5)], "name is invalid"),
        ([tool(inputSchema=None)], "greet.* has no inputSchema"),
        ([tool(inputSchema={"type": "array"})], "greet.* has no inputSchema"),
        ([tool(description=5)], "description is invalid"),
        ([tool(outputSchema=[])], "outputSchema is invalid"),
    ],
)
def test_tools_that_are_none_are_refused(tools: Any, reason: str) -> None:
    with pytest.raises(InvalidAnswer, match=reason):
        checked_result("tools/list", {"tools": tools})


def test_good_tools_and_cursors_pass() -> None:
    good = {"tools": [tool(annotations={}, description=None, unknown=1)], "nextCursor": ""}
    assert checked_result("tools/list", good) is good
    with pytest.raises(InvalidAnswer, match="nextCursor"):
        checked_result("prompts/list", {"prompts": [], "nextCursor": 5})


def test_a_cursor_that_is_no_text_ends_the_list_with_a_fault() -> None:
    faults: list[str] = []
    page = without_invalid_items("tools/list", {"tools": [tool()], "nextCursor": 5}, faults)
    assert page == {"tools": [tool()]}
    assert faults == ["nextCursor is 5, not a string; the list ends with this page"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({}, "no list called content"),
        ({"content": "x"}, "no list called content"),
        ({"content": [], "isError": "yes"}, "isError"),
        ({"content": [5]}, "content 0 is not an object"),
        ({"content": [{}]}, "content 0 has no type"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text"}]}, "content 1, text, has no text"),
        ({"content": [{"type": "image", "data": "x"}]}, "has no mimeType"),
        ({"content": [{"type": "resource", "resource": "x"}]}, "has no resource"),
        ({"content": [{"type": "resource_link"}]}, "has no uri"),
    ],
)
def test_results_that_are_none_are_refused(result: Any, reason: str) -> None:
    with pytest.raises(InvalidAnswer, match=reason):
        checked_result("tools/call", result)


def test_structured_content_without_content_passes() -> None:
    result = {"structuredContent": {"sum": 3}}
    assert checked_result("tools/call", result) is result
    faults = result_faults(result, {}, lambda schema, value: ())
    assert faults == [
        "the result has no list called content; it must not be omitted beside structuredContent"
    ]


def test_content_of_later_revisions_passes() -> None:
    result = {"content": [{"type": "hologram"}], "structuredContent": None}
    assert checked_result("tools/call", result) is result


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"messages": [{"role": "user", "content": {"type": "text"}}], "maxTokens": 1}, ""),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}], "maxTokens": 1}, ""),
        ({"messages": [{"role": "user", "content": "Hello"}], "maxTokens": 1}, "content"),
        ({"messages": [{"role": "user", "content": ["Hello"]}], "maxTokens": 1}, "content"),
        ({"messages": []}, "maxTokens"),
        (None, "object"),
    ],
)
def test_messages_to_be_written_have_their_parts(params: Any, fault: str) -> None:
    found = question_fault("sampling/createMessage", params)
    assert fault in found and bool(fault) == bool(found)
