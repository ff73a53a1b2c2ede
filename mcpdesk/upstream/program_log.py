"""Parser for the stderr of a program. It recognizes log levels and joins a traceback into one entry.

It knows the log formats of common programming languages.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable

from mcpdesk.late_pattern import LatePattern

QUIET_PERIOD_S = 0.1
"""Seconds without a further line after which an entry is complete."""
MAX_LINES = 150
"""Maximum number of lines of an entry: one half from its beginning, the other from its end."""
_LEVELS = {
    "trace": "debug",
    "warn": "warning",
    "err": "error",
    "severe": "error",
    "fatal": "critical",
    **{level: level for level in ("debug", "info", "notice", "warning", "error", "critical", "alert")},
}
"""Level of the MCP specification for each level name that programs write."""
_LEVEL_NAMES = "|".join(_LEVELS)
"""Regular expression of all level names."""
_UPPER_LEVEL_NAMES = _LEVEL_NAMES.upper()
_LEVEL_PATTERNS = (
    # ERROR:, [ERROR], 12:03:40 ERROR, 2026-11-26T12:03:40Z ERROR
    LatePattern(rf"[\W\d_TZ]*({_UPPER_LEVEL_NAMES})(?![\w.])"),
    # [error], error: no such file
    LatePattern(rf"[\W\d_TZ]*\[({_LEVEL_NAMES})\]|[\W\d_TZ]*({_LEVEL_NAMES}):\s", re.IGNORECASE),
    # 12:03:40 - my.logger - ERROR - no such file
    LatePattern(rf".{{1,80}}?(?: - | \| |\] )\W?({_UPPER_LEVEL_NAMES})(?![\w.])"),
    # JSON, level=error
    LatePattern(rf'.*?(?:"(?:level|severity)"\s*:\s*"|\blevel=)({_LEVEL_NAMES})\b', re.IGNORECASE),
)
"""Patterns of lines with a level. The group that matched is the name of the level."""
_LEVELS_WITHOUT_TRACEBACK = ("debug", "info", "notice")
"""Levels of entries that are never followed by a traceback."""
_TRACEBACK = re.compile(r"\W*(?:Exception Group )?Traceback \(most recent call")
"""First line of a traceback. The library rich draws a box around it."""
_CHAIN_MESSAGES = ("During handling of the above exception", "The above exception was the direct cause")
"""Beginnings of the lines that Python writes between the tracebacks of chained exceptions."""
_BOX_CHARACTERS = ("│", "╭", "╰", "┌", "└", "|", "+")
"""Characters of the boxes and trees around tracebacks."""


class ProgramLog:
    """Joins the lines of one program into entries. Use it on one event loop."""

    def __init__(self, on_entry: Callable[[str, str, float], None]) -> None:
        """`on_entry` is called with level, text and start (Unix time in seconds) of each entry."""
        self._on_entry = on_entry
        self._start_time = 0.0
        self._level = ""
        """Level of the unfinished entry, or "" if no entry is unfinished."""
        self._first_lines: list[str] = []
        self._last_lines: deque[str] = deque(maxlen=MAX_LINES // 2)
        self._line_count = 0
        self._is_in_traceback = False
        """True within a traceback. The line that names the exception ends it."""
        self._traceback_indent = 0
        """Indentation of the first line of the traceback. The last line has the same indentation."""
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, line: str) -> None:
        """Add one line."""
        if not (self._level and self._continues_entry(line)):
            self.flush()
            level = level_of(line)
            if not level:
                self._on_entry("info", line, time.time())
                return
            self._level, self._start_time, self._is_in_traceback = level, time.time(), False
            if _TRACEBACK.match(line):
                self._begin_traceback(line)
        self._add(line)
        self._restart_timer()

    def flush(self) -> None:
        """Finish the current entry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._level:
            omitted_count = self._line_count - len(self._first_lines) - len(self._last_lines)
            omission_note = [f"… {omitted_count} lines left out"] if omitted_count else []
            level = self._level
            text = "\n".join([*self._first_lines, *omission_note, *self._last_lines])
            self._level, self._first_lines, self._line_count = "", [], 0
            self._last_lines.clear()
            self._on_entry(level, text, self._start_time)

    def _add(self, line: str) -> None:
        self._line_count += 1
        if len(self._first_lines) < MAX_LINES // 2:
            self._first_lines.append(line)
        else:
            self._last_lines.append(line)

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(QUIET_PERIOD_S, self.flush)

    def _continues_entry(self, line: str) -> bool:
        """Return True if a line belongs to the entry before it."""
        stripped_line = line.lstrip()
        indent = len(line) - len(stripped_line)
        has_box = stripped_line.startswith(_BOX_CHARACTERS)
        if _TRACEBACK.match(line):
            self._begin_traceback(line)
            return self._level not in _LEVELS_WITHOUT_TRACEBACK
        if self._is_in_traceback:
            self._is_in_traceback = has_box or indent > self._traceback_indent
            return self._is_in_traceback or not level_of(line)
        return not level_of(line) and (indent > 0 or has_box or stripped_line.startswith(_CHAIN_MESSAGES))

    def _begin_traceback(self, line: str) -> None:
        self._is_in_traceback, self._traceback_indent = True, len(line) - len(line.lstrip())


def level_of(line: str) -> str:
    """Return the level in a line, as a level of the MCP specification, or "" if the line has no level."""
    if _TRACEBACK.match(line):
        return "error"
    match = next(filter(None, (pattern.regex.match(line) for pattern in _LEVEL_PATTERNS)), None)
    return _LEVELS[next(filter(None, match.groups())).lower()] if match else ""
