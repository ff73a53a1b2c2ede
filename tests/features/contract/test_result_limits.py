"""Limits of known clients for a result, by size, by the limit that a tool declares, and by caller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpdesk.features.contract import result_limits
from mcpdesk.features.contract.result_limits import exceeded_limits

HINT = "anthropic/maxResultSizeChars"


def response(content: list[dict[str, Any]], **members: Any) -> bytes:
    """A response to `tools/call`."""
    message = {"jsonrpc": "2.0", "id": 1, "result": {"content": content, **members}}
    return json.dumps(message, ensure_ascii=False).encode()


def text(length: int, letter: str = "x") -> dict[str, Any]:
    return {"type": "text", "text": letter * length}


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (response([text(50_000)]), ""),
        (response([text(50_001)]), "50,001"),
        (response([text(30_000), text(30_000)]), "60,000"),
        (response([text(20_000, "ü")]), ""),
        (response([{"type": "image", "data": "A" * 90_000, "mimeType": "image/png"}]), ""),
        (response([{"type": "resource", "resource": {"uri": "a:b", "text": "x" * 70_000}}]), "70,000"),
        (response([], structuredContent={"a": "x" * 60_000}), "60,008"),
        (response([text(60_000)])[:-10], ""),
        (b"[" + b" " * 60_000 + b"]", ""),
    ],
)
def test_only_characters_of_texts_and_structured_content_count(message: bytes, size: str) -> None:
    found = exceeded_limits(message, {}, "")
    assert [each.partition(";")[0] for each in found] == (
        [f"the result has {size} characters"] if size else []
    )


def test_the_line_names_the_client_the_effect_and_the_limit() -> None:
    (line,) = exceeded_limits(response([text(81_234)]), {}, "claude-code 2.1")
    assert line.startswith("the result has 81,234 characters; Claude Code: saves a larger result to a file")
    assert line.endswith("(limit: 50,000 characters of a result)")


@pytest.mark.parametrize(
    ("meta", "count"),
    [({HINT: 100_000}, 0), ({HINT: 60_000}, 1), ({HINT: 10}, 1), ({HINT: "many"}, 1), ("odd", 1), (None, 1)],
)
def test_the_limit_that_a_tool_declares_is_respected(meta: Any, count: int) -> None:
    found = exceeded_limits(response([text(81_234)]), {"_meta": meta}, "claude-code")
    assert len(found) == count
    if meta == {HINT: 60_000}:
        assert "(limit: 60,000 characters" in found[0]


@pytest.mark.parametrize(
    ("peer", "count"),
    [("claude-code 2.1", 1), ("Claude Code", 1), ("desk", 1), ("my-agent 1", 1), ("cursor 3", 0)],
)
def test_a_known_caller_hides_the_limits_of_other_clients(peer: str, count: int) -> None:
    assert len(exceeded_limits(response([text(81_234)]), {}, peer)) == count


def test_a_huge_message_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_limits, "MAX_DECODED_BYTES", 60_000)
    huge = response([text(90_000)])
    assert exceeded_limits(huge, {}, "")[0].startswith(f"the result has about {len(huge):,} characters")
    picture = response([{"type": "text", "text": "a"}, {"type": "image", "data": "A" * 90_000}])
    assert exceeded_limits(picture, {}, "") == []
