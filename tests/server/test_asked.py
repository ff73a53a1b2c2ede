"""Results of a client read into values, whatever they look like."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.asks.question_wording import Elicited, Root, read_roots, read_sampled


def test_the_text_of_a_sampled_message_is_that_of_its_blocks() -> None:
    use = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
    blocks = [{"type": "text", "text": "a"}, use, {"type": "text", "text": "b"}]
    said = read_sampled({"role": "assistant", "content": blocks, "model": "m", "stopReason": "toolUse"})
    assert (said.text, said.model, said.stop_reason, said.content[1]) == ("ab", "m", "toolUse", use)


@pytest.mark.parametrize(
    "result",
    [None, [], {}, {"role": "assistant", "content": "x", "model": "m"},
     {"role": "system", "content": {"type": "text", "text": ""}, "model": "m"},
     {"role": "assistant", "content": {"type": "text"}, "model": "m"},
     {"role": "assistant", "content": {"type": "text", "text": ""}, "model": 5}],
)  # fmt: skip
def test_what_is_no_sampled_message_is_refused(result: Any) -> None:
    with pytest.raises(ValueError, match="sampling result"):
        read_sampled(result)


def test_roots_are_values() -> None:
    listed = {"roots": [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b"}]}
    assert read_roots(listed) == [Root("file:///a", "a"), Root("file:///b")]


@pytest.mark.parametrize("result", [None, {}, {"roots": {}}, {"roots": [5]}, {"roots": [{"uri": 5}]}])
def test_what_are_no_roots_is_refused(result: Any) -> None:
    with pytest.raises(ValueError, match="roots"):
        read_roots(result)


def test_only_accepting_is_accepted() -> None:
    assert Elicited("accept", {}).accepted and not Elicited("decline").accepted
