"""The most readable text of results of every shape."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.bridge.result_text import NO_OUTPUT, content_text, format_result, result_text


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": [text("Hello")]}, "Hello"),
        ({"content": [text("a"), text(""), text("b")]}, "a\nb"),
        ({"content": [text('{"a":1}')], "structuredContent": {"a": 1}}, '{"a":1}'),
        ({"content": [], "structuredContent": {"a": 1}}, '{"a": 1}'),
        (
            {"content": [], "structuredContent": {"a": 1, "b": ["ä"]}},
            '{\n  "a": 1,\n  "b": [\n    "ä"\n  ]\n}',
        ),
        ({"content": [], "structuredContent": {"result": "just this"}}, "just this"),
        ({"content": [], "structuredContent": None}, "null"),
        ({"content": [text("")], "structuredContent": "bare"}, "bare"),
        ({"content": [text("no such order")], "isError": True}, "Error: no such order"),
        ({"content": [text("Error 7: gone")], "isError": True}, "Error 7: gone"),
        ({"content": [], "isError": True}, "Error: the tool gave no reason"),
        ({"content": [], "structuredContent": {"code": 7}, "isError": True}, 'Error: {"code": 7}'),
        ({"content": []}, NO_OUTPUT),
        (
            {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]},
            "[image, image/png, 3 bytes]",
        ),
        (
            {"content": [{"type": "audio", "data": "%", "mimeType": "audio/wav"}, text("a sound")]},
            "[audio, audio/wav, 0 bytes]\na sound",
        ),
        (
            {"content": [{"type": "resource_link", "uri": "x://y", "name": "Y", "description": "why"}]},
            "[link x://y (Y): why]",
        ),
        ({"content": [{"type": "resource_link", "uri": "x://y", "name": "x://y"}]}, "[link x://y]"),
        ({"content": [{"type": "resource", "resource": {"uri": "x://y", "text": "inside"}}]}, "inside"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x://y", "blob": "AAAA"}}]},
            "[resource x://y, unknown type, 3 bytes]",
        ),
        ({"content": [{"type": "hologram", "beam": 1}]}, '{\n  "type": "hologram",\n  "beam": 1\n}'),
        ({"contents": [{"uri": "x://y", "text": "read"}]}, "read"),
        ({"messages": [{"role": "user", "content": text("Explain.")}]}, "user: Explain."),
        (
            {"messages": [{"role": "assistant", "content": [text("a"), {"type": "tool_use", "name": "t"}]}]},
            "assistant: a\n[call of t with {}]",
        ),
        ({"status": "ok", "stdout": "out\n", "stderr": "err\n", "exit_code": 0}, "out\nerr"),
        ({"answer": 42, "_meta": {}, "resultType": "complete"}, '{"answer": 42}'),
        ([text("a"), {"type": "tool_result", "content": [text("b")]}], "a\nb"),
        ("plain", "plain"),
        ("", NO_OUTPUT),
        (None, NO_OUTPUT),
        ([], NO_OUTPUT),
        (7, "7"),
    ],
)
def test_result_becomes_its_most_readable_text(result: Any, told: str) -> None:
    assert format_result(result) == told


def test_person_gets_the_words_alone_and_what_is_for_people() -> None:
    for_model = text("think", annotations={"audience": ["assistant"]})
    for_user = text("look", annotations={"audience": ["user"]})
    assert result_text({"content": [for_model, for_user], "isError": True}) == "look"
    assert result_text({"content": []}) == ""
    assert result_text(None) == "" and result_text("x") == "x"


def test_what_is_for_the_user_alone_is_not_for_the_model() -> None:
    for_user = text("a chart for you", annotations={"audience": ["user"]})
    for_both = text("42", annotations={"audience": ["user", "assistant"]})
    assert format_result({"content": [for_user, for_both]}) == "42"
    assert format_result({"content": [for_user]}) == "a chart for you"


@pytest.mark.parametrize(
    "block", [None, 5, [], {}, {"type": None}, {"type": "text"}, {"type": "text", "text": 5}]
)
def test_broken_blocks_are_shown_as_they_are(block: Any) -> None:
    assert isinstance(content_text(block), str)
    assert format_result({"content": [block, text("x")]}).endswith("x")
