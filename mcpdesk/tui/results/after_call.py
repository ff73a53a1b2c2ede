"""What stands below a result: what the call logged, and in what it differs from the same call before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from typing import Any

import orjson
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.values import CallOutcome, LogLine
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.render.safe_text import clean

MOST_LOGGED = 50
"""Log lines that are shown, the newest ones."""
MOST_COMPARED = 1 << 20
"""Bytes of an answer beyond which it is not compared."""
MOST_DIFFERENT = 200
"""Lines of a difference that are shown."""
_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-muted"}
_BAD = frozenset({"error", "critical", "alert", "emergency"})


def logged_lines(logged: Sequence[LogLine], hint: str = "E opens it") -> Iterator[Widget]:
    """What a call logged; an exception with the author's lines of its traceback, its place and `hint`."""
    if not logged:
        return
    failed = next((line for line in reversed(logged) if line.where and line.level in _BAD), None)
    place = f" · {failed.where} · {hint}" if failed is not None else ""
    yield Static(Content(f"log of this call{place}"), classes="role")
    for line in logged[-MOST_LOGGED:]:
        style = "$text-error" if line.level in _BAD else ""
        apart = "\n" if "\n" in line.text else " "  # the lines of a traceback stand below each other
        yield Static(
            Content.assemble((f"{line.level}{apart}", "$text-muted"), (clean(mask_text(line.text)), style))
        )


def differences(before: CallOutcome | None, now: CallOutcome) -> Iterator[Widget]:
    """In what an outcome differs from the one before it, line by line."""
    if before is None or max(len(before.raw), len(now.raw)) > MOST_COMPARED:
        return
    old, new = _lines(before), _lines(now)
    if old == new:
        yield Static(Content("= the same as before"), classes="note")
        return
    yield Static(Content("changed since the call before"), classes="role")
    changes = list(islice(unified_diff(old, new, n=1, lineterm=""), 2, MOST_DIFFERENT + 2))
    yield Static(
        Content("\n").join(Content.styled(clean(line), _STYLES.get(line[:1], "")) for line in changes)
    )


def _lines(outcome: CallOutcome) -> list[str]:
    """What is compared: the result or error in lines, a text in its own."""
    value = outcome.error if outcome.result is None else outcome.result
    return [line for part in _parts(value) for line in part.split("\n")]


def _parts(value: Any) -> Iterator[str]:
    content = value.get("content") if isinstance(value, dict) else None
    texts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    for each in texts:
        if isinstance(each.get("text"), str):
            yield each["text"]
    rest = {key: each for key, each in (value or {}).items() if key != "_meta"}
    if isinstance(content, list):
        rest["content"] = [{key: each for key, each in block.items() if key != "text"} for block in texts]
    yield orjson.dumps(rest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
