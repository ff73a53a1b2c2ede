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
"""Maximum size in bytes of an outcome that is compared."""
MAX_DIFFERENCE_LINES = 200
"""Maximum number of lines of a difference."""
_DIFFERENCE_STYLES = {"+": "$text-success", "-": "$text-error", "@": "$text-muted"}
"""First character of a line of a difference -> style."""
_ERROR_LEVELS = frozenset({"error", "critical", "alert", "emergency"})
"""Log levels of errors."""


def failure_line(log_lines: Sequence[LogLine]) -> LogLine | None:
    """Return the last log line that reports an error and its location in the code, or None."""
    return next((line for line in reversed(log_lines) if line.where and line.level in _ERROR_LEVELS), None)


def failure_code(line: LogLine) -> tuple[int, str]:
    """Return a row number within a log line, and the code in this row that failed.

    Python writes the code in the row below its location. The library rich writes it behind its line number.
    If the code is not found, return the last row and an empty text.
    """
    file, _, number = line.where.rpartition(":")
    python_location = f'File "{file}", line {number},'
    rich_code = re.compile(rf"❱ +{re.escape(number)}\b(.*)")
    rows = mask_text(line.text).split("\n")
    for row_index in reversed(range(len(rows))):
        if python_location in rows[row_index] and row_index + 1 < len(rows):
            return row_index + 1, rows[row_index + 1].strip()
        if (match := rich_code.search(rows[row_index])) is not None:
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
        count_note = f" ×{counts[key]}" if counts[key] > 1 else ""
        style = "$text-error" if line.level in _ERROR_LEVELS else ""
        first_row, *other_rows = (row.rstrip() for row in clean(mask_text(line.text)).split("\n"))
        has_several_rows = bool(other_rows)
        separator = "\n" if has_several_rows else " "  # keep the rows of a traceback aligned
        other_text = "\n".join(other_rows)
        if not first_row.startswith(" "):
            # The library rich indents these rows by the width of its own columns.
            other_text = dedent(other_text)
        text = f"{first_row}\n{other_text}" if has_several_rows else first_row
        level = (f"{line.level}{count_note}{separator}", "$text-muted")
        yield LogBlock(Content.assemble(level, (text, style)), line, "lines" if has_several_rows else "")


def call_log_widgets(log_lines: Sequence[LogLine]) -> Iterator[Widget]:
    """Yield the log of a call below a heading with the location of the failure."""
    if log_lines:
        error_line = failure_line(log_lines)
        hint = f" · {error_line.where} · g c opens it" if error_line is not None else ""
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
    *old_texts, old_rest = _compared_parts(previous)
    *new_texts, new_rest = _compared_parts(current)
    if old_rest != new_rest and _has_failed(previous) == _has_failed(current):
        old_texts, new_texts = [*old_texts, old_rest], [*new_texts, new_rest]
    if old_texts == new_texts:
        yield Static(Content("= the same as before"), classes="note")
        return
    old_lines, new_lines = ("\n".join(texts).split("\n") for texts in (old_texts, new_texts))
    yield Static(Content("changed since the call before"), classes="role")
    difference = unified_diff(old_lines, new_lines, n=1, lineterm="")
    changes = list(islice(difference, 2, MAX_DIFFERENCE_LINES + 2))  # without the two lines of file names
    styled_lines = (Content.styled(clean(line), _DIFFERENCE_STYLES.get(line[:1], "")) for line in changes)
    yield Static(Content("\n").join(styled_lines))


def _has_failed(outcome: CallOutcome) -> bool:
    return outcome.result is None or outcome.result.get("isError") is True


def _compared_parts(outcome: CallOutcome) -> Iterator[str]:
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
