"""Questions worded for a revision."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from msgspec import Meta, Struct

from mcpdesk.errors import ClientError, MissingCapability
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.revisions import V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28, Revision
from mcpdesk.server.asks import question_wording
from mcpdesk.server.asks.question_wording import Root, read_roots, read_sampled
from mcpdesk.server.schemas.hints import schema_of

TERMS = {each: Terms(each) for each in (V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28)}
IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}


class Choice(TypedDict, total=False):
    colour: str


def test_a_typed_dict_is_a_form() -> None:
    form = question_wording.form("?", Choice, TERMS[V2026_07_28])
    assert form.params["requestedSchema"] == {"type": "object", "properties": {"colour": {"type": "string"}}}
    assert form.read({"action": "accept", "content": {"colour": "red"}}).content == {"colour": "red"}


@pytest.mark.parametrize("schema", [int, "text", None, {"type": "string"}])
def test_what_is_no_form_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"form|Schema"):
        question_wording.form("?", schema, TERMS[V2026_07_28])


@pytest.mark.requirement("12.9")
@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "example.org", "https://"])
def test_a_link_is_one_of_the_web(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        question_wording.link("?", url, TERMS[V2026_07_28])


def test_only_the_handshake_era_numbers_its_links() -> None:
    assert "elicitationId" in question_wording.link("?", "https://a.b", TERMS[V2025_11_25]).params
    assert "elicitationId" not in question_wording.link("?", "https://a.b", TERMS[V2026_07_28]).params


def test_early_revisions_get_a_message_a_block() -> None:
    both = [{"role": "user", "content": [{"type": "text", "text": "a"}, IMAGE]}]
    assert len(question_wording.sampling(both, {}, TERMS[V2025_06_18]).params["messages"]) == 2
    assert question_wording.sampling(both, {}, TERMS[V2025_11_25]).params["messages"] == both
    use: list[Any] = [
        {"role": "assistant", "content": {"type": "tool_use", "id": "a", "name": "t", "input": {}}},
        {"role": "user", "content": {"type": "tool_result", "toolUseId": "a", "content": []}},
    ]
    with pytest.raises(ClientError, match="tool_use"):
        question_wording.sampling(use, {}, TERMS[V2025_06_18])


@pytest.mark.requirement("6.13")
def test_tool_results_are_checked_before_anything_is_sent() -> None:
    result = {"role": "user", "content": {"type": "tool_result", "toolUseId": "a", "content": []}}
    with pytest.raises(ValueError, match="message 2: no earlier tool use"):
        question_wording.sampling(["hello", result], {}, TERMS[V2026_07_28])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "sampling"),
        ({"tools": []}, "sampling.tools"),
        ({"includeContext": "thisServer"}, "sampling.context"),
    ],
)
def test_what_sampling_needs_depends_on_what_it_uses(options: dict[str, Any], word: str) -> None:
    question = question_wording.sampling("?", options, TERMS[V2026_07_28])
    assert question.capability_name == word
    with pytest.raises(MissingCapability, match=word):
        question.check(TERMS[V2026_07_28])


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


class Order(Struct):
    code: Annotated[str, Meta(pattern="^[A-Z]{3}$", description="Code of the shop")]
    number: Annotated[int, Meta(multiple_of=5)] = 5


@pytest.mark.parametrize("revision", [V2025_06_18, V2025_11_25, V2026_07_28])
@pytest.mark.parametrize("schema", [Order, schema_of(Order)])
def test_what_clients_do_not_check_is_checked_here_and_named(schema: Any, revision: Revision) -> None:
    form = question_wording.form("?", schema, TERMS[revision])
    fields = form.params["requestedSchema"]["properties"]
    assert fields["code"]["description"] == "Code of the shop. Must match the pattern ^[A-Z]{3}$."
    assert fields["number"]["description"] == "Must be a multiple of 5."
    assert form.read({"action": "accept", "content": {"code": "ABC", "number": 10}}).accepted
    for content, reason in (
        ({"code": "abc"}, r"code must match the pattern \^\[A-Z\]\{3\}\$"),
        ({"code": "ABC", "number": 7}, "number must be a multiple of 5"),
    ):
        with pytest.raises(ValueError, match=reason):
            form.read({"action": "accept", "content": content})


def test_a_pattern_that_is_no_json_schema_is_not_checked() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": r"(?P<a>x)\Z(("}}}
    form = question_wording.form("?", schema, TERMS[V2026_07_28])
    assert form.read({"action": "accept", "content": {"x": "any"}}).accepted
