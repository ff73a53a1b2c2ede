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

QUIET_S = 0.1
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
_WORD = "|".join(_LEVELS)
_UPPER = _WORD.upper()
_FORMATS = (
    # ERROR:, [ERROR], 12:03:40 ERROR, 2026-11-26T12:03:40Z ERROR
    LatePattern(rf"[\W\d_TZ]*({_UPPER})(?![\w.])"),
    # [error], error: no such file
    LatePattern(rf"[\W\d_TZ]*\[({_WORD})\]|[\W\d_TZ]*({_WORD}):\s", re.IGNORECASE),
    # 12:03:40 - my.logger - ERROR - no such file
    LatePattern(rf".{{1,80}}?(?: - | \| |\] )\W?({_UPPER})(?![\w.])"),
    # JSON, level=error
    LatePattern(rf'.*?(?:"(?:level|severity)"\s*:\s*"|\blevel=)({_WORD})\b', re.IGNORECASE),
)
_LEVELS_WITHOUT_TRACEBACK = ("debug", "info", "notice")
"""Levels of entries that are never followed by a traceback."""
_TRACEBACK = re.compile(r"\W*(?:Exception Group )?Traceback \(most recent call")
"""First line of a traceback. The library rich draws a box around it."""
_CHAIN_MESSAGES = ("During handling of the above exception", "The above exception was the direct cause")
_BOX_CHARACTERS = ("│", "╭", "╰", "┌", "└", "|", "+")


class ProgramLog:
    """Joins the lines of one program into entries. Use it on one event loop."""

    def __init__(self, on_entry: Callable[[str, str, float], None]) -> None:
        """`on_entry` is called with level, text and start (Unix time in seconds) of each entry."""
        self._on_entry = on_entry
        self._start_time = 0.0
        self._level = ""
        """Level of the unfinished entry, or "" if no entry is unfinished."""
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=MAX_LINES // 2)
        self._count = 0
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
            omitted_count = self._count - len(self._head) - len(self._tail)
            lines = [f"… {omitted_count} lines left out"] if omitted_count else []
            level, text = self._level, "\n".join([*self._head, *lines, *self._tail])
            self._level, self._head, self._count = "", [], 0
            self._tail.clear()
            self._on_entry(level, text, self._start_time)

    def _add(self, line: str) -> None:
        self._count += 1
        (self._head if len(self._head) < MAX_LINES // 2 else self._tail).append(line)

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(QUIET_S, self.flush)

    def _continues_entry(self, line: str) -> bool:
        """Return True if a line belongs to the entry before it."""
        stripped = line.lstrip()
        indent, has_box = len(line) - len(stripped), stripped.startswith(_BOX_CHARACTERS)
        if _TRACEBACK.match(line):
            self._begin_traceback(line)
            return self._level not in _LEVELS_WITHOUT_TRACEBACK
        if self._is_in_traceback:
            self._is_in_traceback = has_box or indent > self._traceback_indent
            return self._is_in_traceback or not level_of(line)
        return not level_of(line) and (indent > 0 or has_box or stripped.startswith(_CHAIN_MESSAGES))

    def _begin_traceback(self, line: str) -> None:
        self._is_in_traceback, self._traceback_indent = True, len(line) - len(line.lstrip())


def level_of(line: str) -> str:
    """Return the level in a line, as a level of the MCP specification, or "" if the line has no level."""
    if _TRACEBACK.match(line):
        return "error"
    match = next(filter(None, (line_format.regex.match(line) for line_format in _FORMATS)), None)
    return _LEVELS[next(filter(None, match.groups())).lower()] if match else ""
