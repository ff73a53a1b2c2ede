"""Tool uses and tool results in the messages of a sampling request."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.protocol.sampling import blocks_of, check_turns


def said(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def use(identifier: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "t", "input": {}}


def result(identifier: Any) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseId": identifier, "content": []}


TEXT = {"type": "text", "text": "x"}


@pytest.mark.requirement("6.13")
@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": TEXT}],
        [said("assistant", TEXT, use("a"), use("b")), said("user", result("b"), result("a"))],
        [{"role": "assistant", "content": use(1)}, {"role": "user", "content": result(1)}],
    ],
)
def test_balanced_messages_pass(messages: list[dict[str, Any]]) -> None:
    check_turns(messages)


@pytest.mark.requirement("6.13")
@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([said("assistant", use("a"))], "message 1: no message with the results"),
        ([said("assistant", use("a")), said("user", TEXT)], "message 2: it has to hold the results .* a"),
        ([said("assistant", use("a"), use("b")), said("user", result("a"))], "message 2: .*tool uses b"),
        ([said("assistant", use("a")), said("user", result("a"), TEXT)], "message 2: .* by themselves"),
        ([said("assistant", use("a")), said("assistant", result("a"))], "message 2: .* of the user"),
        ([said("user", result("a"))], "message 1: no tool use before it is called a"),
        ([said("user", use("a"))], "message 1: only the assistant"),
    ],
)
def test_what_is_out_of_balance_names_its_message(messages: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_turns(messages)


def test_content_is_one_block_or_several() -> None:
    assert blocks_of({"content": TEXT}) == blocks_of({"content": [TEXT]}) == [TEXT]
    assert blocks_of({}) == []
