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


def failure_line(log_lines: Sequence[LogLine]) -> LogLine | None:
    """Return the last log line that reports an error and its location in the code, or None."""
    return next((line for line in reversed(log_lines) if line.where and line.level in _ERROR_LEVELS), None)


def failure_code(line: LogLine) -> tuple[int, str]:
    """Return a row number within a log line, and the code in this row that failed.

    Python writes the code in the row below its location. The library rich writes it behind its line number.
    If the code is not found, return the last row and an empty text.
    """
    file, _, number = line.where.rpartition(":")
    marker, line_number_pattern = (
        f'File "{file}", line {number},',
        re.compile(rf"❱ +{re.escape(number)}\b(.*)"),
    )
    rows = mask_text(line.text).split("\n")
    for row_index in reversed(range(len(rows))):
        if marker in rows[row_index] and row_index + 1 < len(rows):
            return row_index + 1, rows[row_index + 1].strip()
        if (match := line_number_pattern.search(rows[row_index])) is not None:
            return row_index, match[1].replace("│", "").strip()
    return len(rows) - 1, ""


class LogBlock(Static):
    """Log line of a call, or several equal lines."""

    def __init__(self, text: Content, line: LogLine, classes: str) -> None:
        super().__init__(text, classes=classes)
        self._line = line

    def shows(self, line: LogLine) -> bool:
        """Return True if this widget shows the line, or an equal line."""
        return (line.level, line.text) == (self._line.level, self._line.text)


def log_blocks(log_lines: Sequence[LogLine]) -> Iterator[LogBlock]:
    """Yield one widget per log line of a call. A widget of several rows has the class `lines`.

    Equal tracebacks share one widget at the position of the last traceback. It shows their number.
    """
    newest_lines = log_lines[-MAX_LOG_LINES:]
    counts = Counter((line.level, line.text) for line in newest_lines if "\n" in line.text)
    last_positions = {(line.level, line.text): position for position, line in enumerate(newest_lines)}
    for position, line in enumerate(newest_lines):
        key = line.level, line.text
        if counts[key] > 1 and last_positions[key] != position:
            continue
        count = f" ×{counts[key]}" if counts[key] > 1 else ""
        style = "$text-error" if line.level in _ERROR_LEVELS else ""
        first, *rest = (row.rstrip() for row in clean(mask_text(line.text)).split("\n"))
        is_long = bool(rest)
        separator = "\n" if is_long else " "  # keep the lines of a traceback aligned
        body = "\n".join(rest)
        if not first.startswith(" "):
            body = dedent(body)  # the library rich indents these rows by the width of its own columns
        text = (f"{first}\n{body}" if is_long else first, style)
        content = Content.assemble((f"{line.level}{count}{separator}", "$text-muted"), text)
        yield LogBlock(content, line, "lines" if is_long else "")


def call_log_widgets(log_lines: Sequence[LogLine]) -> Iterator[Widget]:
    """Yield the log of a call below a heading with the location of the failure."""
    if log_lines:
        failed_at_line = failure_line(log_lines)
        hint = f" · {failed_at_line.where} · g c opens it" if failed_at_line is not None else ""
        yield Static(Content(f"log of this call{hint}"), classes="role")
        yield from log_blocks(log_lines)


def differences(previous: CallOutcome | None, current: CallOutcome) -> Iterator[Widget]:
    """Yield the line differences between two outcomes. If only one of them failed, compare only their
    texts.
    """
    if previous is None or max(len(previous.raw), len(current.raw)) > MAX_COMPARED_BYTES:
        return
    if previous.cancelled or current.cancelled:
        return
    (*old_texts, old_rest), (*new_texts, new_rest) = _parts(previous), _parts(current)
    if old_rest != new_rest and _has_failed(previous) == _has_failed(current):
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
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    for block in blocks:
        if isinstance(block.get("text"), str):
            yield block["text"]
    rest = {key: member for key, member in (value or {}).items() if key != "_meta"}
    if isinstance(content, list):
        rest["content"] = [
            {key: member for key, member in block.items() if key != "text"} for block in blocks
        ]
    yield orjson.dumps(rest, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
