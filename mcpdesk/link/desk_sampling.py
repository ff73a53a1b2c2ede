"""A message a hosted tool wants written: what the person reads of it, and what they wrote as a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcpdesk.inbox.question import Answer, Page
from mcpdesk.protocol import content
from mcpdesk.protocol.jsonrpc import JSONObject

MODEL = "the person at the desk"
_WISHES = {
    "costPriority": "cheap",
    "speedPriority": "fast",
    "intelligencePriority": "capable",
}


def page_of(params: JSONObject) -> Page:
    """Messages, system prompt and wishes to read, and room for the answer."""
    return Page(
        "Write what the model would answer.", "sampling", detail="\n\n".join(_told(params)), is_long=True
    )


def result_of(answer: Answer) -> JSONObject:
    """The CreateMessageResult."""
    return {
        "role": "assistant",
        "content": content.text(answer.other),
        "model": MODEL,
        "stopReason": "endTurn",
    }


def _told(params: JSONObject) -> Iterator[str]:
    if system := params.get("systemPrompt"):
        yield f"system: {system}"
    for message in params["messages"]:
        given = message["content"]
        for block in given if isinstance(given, list) else [given]:
            yield f"{message['role']}: {_shown(block)}"
    if wishes := " · ".join(_wishes(params)):
        yield wishes


def _shown(block: JSONObject) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    about = block.get("name") or block.get("mimeType") or block.get("toolUseId") or ""
    return f"[{block.get('type')} {about}]"


def _wishes(params: JSONObject) -> Iterator[str]:
    preferences: dict[str, Any] = params.get("modelPreferences") or {}
    hints = [str(hint["name"]) for hint in preferences.get("hints", ()) if hint.get("name")]
    if hints:
        yield f"wants {', '.join(hints)}"
    for key, word in _WISHES.items():
        if key in preferences:
            yield f"{word} {preferences[key]}"
    yield f"at most {params['maxTokens']} tokens"
    if "temperature" in params:
        yield f"temperature {params['temperature']}"
    if stops := params.get("stopSequences"):
        yield f"stops at {', '.join(map(repr, stops))}"
