"""Widgets below a result: the log of the call, and the differences from the previous same call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from textwrap import dedent
from typing import Any

import orjson
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.values import CallOutcome, LogLine
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.render.safe_text import clean

MAX_LOG_LINES = 50
"""Maximum number of log lines that are shown. These are the newest lines."""
MAX_COMPARED_BYTES = 1 << 20
"""An answer with more bytes than this is not compared."""
MAX_DIFFERENCE_LINES = 200
"""Maximum number of lines of a difference."""
_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-muted"}
_ERROR_LEVELS = frozenset({"error", "critical", "alert", "emergency"})


def failed_line(logged: Sequence[LogLine]) -> LogLine | None:
    """Return the last log line that reports an error and its location in the code, or None."""
    return next((line for line in reversed(logged) if line.where and line.level in _ERROR_LEVELS), None)


def failed_code(line: LogLine) -> tuple[int, str]:
    """Return a row number within a log line, and the code in this row that failed.

    Python writes the code in the row below its location. The library rich writes it behind its line number.
    If the code is not found, return the last row and an empty text.
    """
    file, _, number = line.where.rpartition(":")
    marker, numbered = f'File "{file}", line {number},', re.compile(rf"❱ +{re.escape(number)}\b(.*)")
    rows = mask_text(line.text).split("\n")
    for at in reversed(range(len(rows))):
        if marker in rows[at] and at + 1 < len(rows):
            return at + 1, rows[at + 1].strip()
        if (match := numbered.search(rows[at])) is not None:
            return at, match[1].replace("│", "").strip()
    return len(rows) - 1, ""


class LogBlock(Static):
    """Log line of a call, or several equal lines."""

    def __init__(self, text: Content, line: LogLine, classes: str) -> None:
        super().__init__(text, classes=classes)
        self._line = line

    def shows(self, line: LogLine) -> bool:
        """Return True if this line, or an equal one, is shown here."""
        return (line.level, line.text) == (self._line.level, self._line.text)


def log_blocks(logged: Sequence[LogLine]) -> Iterator[LogBlock]:
    """Yield one widget per log line of a call. A widget of several rows has the class `lines`.

    Equal tracebacks share one widget at the position of the last traceback. It shows how many there are.
    """
    shown = logged[-MAX_LOG_LINES:]
    counts = Counter((line.level, line.text) for line in shown if "\n" in line.text)
    last = {(line.level, line.text): at for at, line in enumerate(shown)}
    for at, line in enumerate(shown):
        key = line.level, line.text
        if counts[key] > 1 and last[key] != at:
            continue
        count = f" ×{counts[key]}" if counts[key] > 1 else ""
        style = "$text-error" if line.level in _ERROR_LEVELS else ""
        first, *rest = (row.rstrip() for row in clean(mask_text(line.text)).split("\n"))
        is_long = bool(rest)
        apart = "\n" if is_long else " "  # keep the lines of a traceback aligned
        body = "\n".join(rest)
        if not first.startswith(" "):
            body = dedent(body)  # rich indents it below its own columns
        text = (f"{first}\n{body}" if is_long else first, style)
        shown_text = Content.assemble((f"{line.level}{count}{apart}", "$text-muted"), text)
        yield LogBlock(shown_text, line, "lines" if is_long else "")


def logged_lines(logged: Sequence[LogLine]) -> Iterator[Widget]:
    """Yield the log of a call below a heading with the location of the failure."""
    if logged:
        failed = failed_line(logged)
        hint = f" · {failed.where} · g c opens it" if failed is not None else ""
        yield Static(Content(f"log of this call{hint}"), classes="role")
        yield from log_blocks(logged)


def differences(before: CallOutcome | None, now: CallOutcome) -> Iterator[Widget]:
    """Yield the line differences between two outcomes. If only one of them failed, compare only their
    texts.
    """
    if before is None or max(len(before.raw), len(now.raw)) > MAX_COMPARED_BYTES:
        return
    if before.cancelled or now.cancelled:
        return
    (*old_texts, old_rest), (*new_texts, new_rest) = _parts(before), _parts(now)
    if old_rest != new_rest and _has_failed(before) == _has_failed(now):
        old_texts, new_texts = [*old_texts, old_rest], [*new_texts, new_rest]
    if old_texts == new_texts:
        yield Static(Content("= the same as before"), classes="note")
        return
    old, new = (("\n".join(texts)).split("\n") for texts in (old_texts, new_texts))
    yield Static(Content("changed since the call before"), classes="role")
    changes = list(islice(unified_diff(old, new, n=1, lineterm=""), 2, MAX_DIFFERENCE_LINES + 2))
    yield Static(
        Content("\n").join(Content.styled(clean(line), _STYLES.get(line[:1], "")) for line in changes)
    )


def _has_failed(outcome: CallOutcome) -> bool:
    return outcome.result is None or outcome.result.get("isError") is True


def _parts(outcome: CallOutcome) -> Iterator[str]:
    """Yield the parts to compare: first each text of the result, then the rest of the result or the error as
    JSON.
    """
    value: Any = outcome.error if outcome.result is None else outcome.result
    content = value.get("content") if isinstance(value, dict) else None
    texts = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    for each in texts:
        if isinstance(each.get("text"), str):
            yield each["text"]
    rest = {key: each for key, each in (value or {}).items() if key != "_meta"}
    if isinstance(content, list):
        rest["content"] = [{key: each for key, each in block.items() if key != "text"} for block in texts]
    yield orjson.dumps(rest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
