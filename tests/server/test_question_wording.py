"""Questions worded for a revision."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from mcpdesk.errors import ClientError, MissingCapability
from mcpdesk.protocol.revisions import R1, R3, R4, R5
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.asks import question_wording

TERMS = {each: Terms(each) for each in (R1, R3, R4, R5)}
IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}


class Choice(TypedDict, total=False):
    colour: str


def test_a_typed_dict_is_a_form() -> None:
    form = question_wording.form("?", Choice, TERMS[R5])
    assert form.params["requestedSchema"] == {"type": "object", "properties": {"colour": {"type": "string"}}}
    assert form.read({"action": "accept", "content": {"colour": "red"}}).content == {"colour": "red"}


@pytest.mark.parametrize("schema", [int, "text", None, {"type": "string"}])
def test_what_is_no_form_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"form|Schema"):
        question_wording.form("?", schema, TERMS[R5])


@pytest.mark.requirement("12.9")
@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "example.org", "https://"])
def test_a_link_is_one_of_the_web(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        question_wording.link("?", url, TERMS[R5])


def test_only_the_handshake_era_numbers_its_links() -> None:
    assert "elicitationId" in question_wording.link("?", "https://a.b", TERMS[R4]).params
    assert "elicitationId" not in question_wording.link("?", "https://a.b", TERMS[R5]).params


def test_early_revisions_get_a_message_a_block() -> None:
    both = [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]
    assert len(question_wording.sampling(both, {}, TERMS[R3]).params["messages"]) == 2
    assert question_wording.sampling(both, {}, TERMS[R4]).params["messages"] == both
    use: list[Any] = [
        {"role": "assistant", "content": {"type": "tool_use", "id": "a", "name": "t", "input": {}}},
        {"role": "user", "content": {"type": "tool_result", "toolUseId": "a", "content": []}},
    ]
    with pytest.raises(ClientError, match="tool_use"):
        question_wording.sampling(use, {}, TERMS[R3])


@pytest.mark.requirement("6.13")
def test_tool_results_are_checked_before_anything_is_sent() -> None:
    result = {"role": "user", "content": {"type": "tool_result", "toolUseId": "a", "content": []}}
    with pytest.raises(ValueError, match="message 2: no tool use"):
        question_wording.sampling(["hello", result], {}, TERMS[R5])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "sampling"),
        ({"tools": []}, "sampling.tools"),
        ({"includeContext": "thisServer"}, "sampling.context"),
    ],
)
def test_what_sampling_needs_depends_on_what_it_uses(options: dict[str, Any], word: str) -> None:
    question = question_wording.sampling("?", options, TERMS[R5])
    assert question.words == word
    with pytest.raises(MissingCapability, match=word):
        question.check(TERMS[R5])
