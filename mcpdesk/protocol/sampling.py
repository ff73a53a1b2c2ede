"""Conversations handed to a client's model: tool uses and their results belong together. Source: WIRE 6.6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcpdesk.protocol.jsonrpc import JSONObject


def check_turns(messages: Sequence[JSONObject]) -> None:
    """Whether every tool use is answered by the message after it, and by nothing else.

    Raises: ValueError naming the message, counted from 1.
    """
    awaited: frozenset[object] = frozenset()
    for number, message in enumerate(messages, 1):
        blocks = blocks_of(message)
        results = _ids(blocks, "tool_result", "toolUseId")
        if results and (message.get("role") != "user" or len(results) != len(blocks)):
            raise ValueError(f"message {number}: tool results stand by themselves, in a message of the user")
        if frozenset(results) != awaited:
            raise ValueError(f"message {number}: {_disagreement(awaited, results)}")
        uses = _ids(blocks, "tool_use", "id")
        if uses and message.get("role") != "assistant":
            raise ValueError(f"message {number}: only the assistant uses tools")
        awaited = frozenset(uses)
    if awaited:
        raise ValueError(f"message {len(messages)}: no message with the results of its tool uses follows")


def blocks_of(message: JSONObject) -> list[JSONObject]:
    """The content blocks of a message, which may hold one or a list."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(blocks: Iterable[JSONObject], kind: str, key: str) -> list[object]:
    return [block.get(key) for block in blocks if block.get("type") == kind]


def _disagreement(awaited: frozenset[object], results: Iterable[object]) -> str:
    missing = sorted(str(each)[:40] for each in awaited.difference(results))
    if missing:
        return f"it has to hold the results of the tool uses {', '.join(missing)}"
    strange = sorted(str(each)[:40] for each in frozenset(results) - awaited)
    return f"no tool use before it is called {', '.join(strange)}"
