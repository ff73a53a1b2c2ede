"""What can be copied of a call: its result in several forms, its arguments, commands that repeat it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from mcpdesk.link.values import ItemKind
from mcpdesk.tui.drafts import Draft
from mcpdesk.tui.render.content import plain_text
from mcpdesk.tui.render.json_text import compact, pretty


def copies(draft: Draft, curl: str, folder: str) -> Iterator[tuple[str, str, str]]:
    """Key, name and text of each; results only after a call."""
    outcome = draft.outcome
    if outcome is not None and outcome.result is not None:
        yield "t", "result as text", plain_text(outcome.result)
        structured = outcome.result.get("structuredContent")
        if structured is not None:
            yield "s", "structured result", pretty(structured)
    if outcome is not None and outcome.raw:
        yield "r", "raw message", outcome.raw.decode(errors="replace")
    arguments = draft.shareable if draft.shareable is not None else draft.node.value()
    yield "a", "arguments as JSON", pretty(arguments)
    if draft.item.kind is ItemKind.TOOL:
        yield (
            "m",
            "mcpdesk command",
            f"mcpdesk call {shlex.quote(draft.item.name)} {shlex.quote(compact(arguments))}",
        )
    yield "c", "curl command", curl
    yield "n", "name", draft.item.name


def _command(tool: str, arguments: Any, folder: str) -> str:
    members = arguments.items() if isinstance(arguments, dict) else ()
    words = [
        f"{key}={value}" if isinstance(value, str) else f"{key}:={compact(value)}" for key, value in members
    ]
    return shlex.join(["mcpdesk", "call", folder, tool, *words])
