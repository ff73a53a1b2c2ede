"""Log lines and notices of a core, and the logging handler that writes to them.

Entries are numbered. Only a limited number of each kind is kept.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import count, takewhile
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from mcpdesk.hosting.core_loop.changes import Changes
from mcpdesk.hosting.log_limits import LogLimits
from mcpdesk.protocol.jsonrpc import Id

MAX_LINES = 20_000
"""Maximum number of log lines that are kept."""
MAX_NOTICES = 200
"""Maximum number of notices that are kept."""
MAX_LINE_LENGTH = 16_384
"""Maximum length of a log line in characters. Longer lines are cut off."""


class Severity(StrEnum):
    """Severity of a notice."""

    INFO = "information"
    WARNING = "warning"
    ERROR = "error"


class Notice(Struct, frozen=True):
    """Short message to the person at the screen."""

    number: int
    text: str
    severity: Severity
    screen: str
    """Screen with the details: `workbench`, `traffic`, `activity`, `clients`, `logs`, or a part of one.

    `activity/jobs` is such a part. `workbench/save/NAME` shows what a save changed on that server.
    """


class LogLine(Struct, frozen=True):
    """One line of the log."""

    number: int
    time: float
    """Unix time in seconds."""
    level: str
    """Logging level of the MCP specification: debug, info, notice, warning, error, critical and others."""
    source: str
    """Origin of the line: `server`, `stderr`, `print`, or the name of a logger."""
    text: str
    where: str = ""
    """Source line such as `tools/slow.py:14`, if known."""
    server: str = ""
    trace: str = ""
    """Id of the trace that the request belongs to."""
    call: tuple[int, Id] | None = None
    """Connection and id of the request that the line belongs to, if known."""
    tool: str = ""
    """Tool that the request called, or "" if no reader needs it."""
    core: str = ""
    """Core that logged the line, if the desk shows several machines."""


NumberedEntry = TypeVar("NumberedEntry", LogLine, Notice)


def _entries_after(entries: deque[NumberedEntry], number: int) -> list[NumberedEntry]:
    """Return the entries numbered above `number`, oldest first. New entries are appended at the end."""
    if not entries or entries[-1].number <= number:
        return []
    # Iterate over a copy, because another thread may append at the same time.
    new_entries = list(takewhile(lambda entry: entry.number > number, reversed(entries.copy())))
    return new_entries[::-1]


class Journal:
    """Log lines and notices of one core. Any thread may write and read them."""

    def __init__(self, on_entry: Callable[[], object] = lambda: None) -> None:
        """`on_entry` is called after every line and every notice, on the thread that wrote it."""
        self.changes = Changes()
        """Notified after every line and every notice, on the thread that wrote it."""
        self.changes.listen(on_entry)
        self._lines: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        self._line_numbers = count()
        self._notice_numbers = count()
        self._limits = LogLimits()
        self.origin_of: Callable[[tuple[int, Id]], tuple[str, str]] | None = None
        """Function that returns the server and the tool of a running call. None if lines need no tool."""
        self.keep_for_call: Callable[[LogLine], None] | None = None
        """Function to call with every line of a call, on any thread. None if the capture does not record
        them.
        """

    def log(
        self,
        level: str,
        source: str,
        text: str,
        where: str = "",
        server: str = "",
        trace: str = "",
        call: tuple[int, Id] | None = None,
        at: float | None = None,
        cause: str = "",
    ) -> None:
        """Add one line.

        `where` is `file:line` if known. `trace` is the id of the caller's trace. `call` has the connection
        and id of the request that the line belongs to. `at` is the Unix time in seconds; None means now.

        Lines with the same `cause` are limited to one a second. The written line says how many lines it
        represents. Lines without a cause are not limited.
        """
        if cause:
            details = (where, server, trace, call, at)
            return self._limits.put(cause, lambda more: self.log(level, source, text + more, *details))
        shown_text = text if len(text) <= MAX_LINE_LENGTH else text[:MAX_LINE_LENGTH] + " ..."
        tool = ""
        if call is not None and self.origin_of is not None:
            origin, tool = self.origin_of(call)
            server = server or origin
        moment = time.time() if at is None else at
        line = LogLine(0, moment, level, source, shown_text, where, server, trace, call, tool)
        self.keep_line(line)
        if call is not None and self.keep_for_call is not None:
            self.keep_for_call(line)

    def keep_line(self, line: LogLine) -> None:
        """Add a line under a new number."""
        self._lines.append(structs.replace(line, number=next(self._line_numbers)))
        self.changes.notify()

    def keep_notice(self, notice: Notice) -> None:
        """Add a notice under a new number, without a log line."""
        self._notices.append(structs.replace(notice, number=next(self._notice_numbers)))
        self.changes.notify()

    def notify(
        self,
        text: str,
        severity: Severity = Severity.INFO,
        screen: str = "logs",
        cause: str = "",
        logged: str = "",
    ) -> None:
        """Add a notice, and a log line with the same text. `logged` replaces the text of the log line.

        Lines with the same `cause` are limited as described in `log`.
        """
        if cause:
            details = (severity, screen, "", logged)
            return self._limits.put(cause, lambda more: self.notify(text + more, *details))
        self.keep_notice(Notice(0, text, severity, screen))
        level = "info" if severity is Severity.INFO else severity.value
        self.log(level, "server", logged or text)

    @property
    def is_counting(self) -> bool:
        """True if limited lines are being counted. A line with their number follows within a second."""
        return self._limits.is_active

    def flush(self) -> None:
        """Write the limited lines now. Call it before the process ends."""
        self._limits.flush(is_last=True)

    def lines(self, after: int = -1) -> list[LogLine]:
        """Return the log lines numbered above `after`, oldest first."""
        self._limits.flush()
        return _entries_after(self._lines, after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Return the notices numbered above `after`, oldest first."""
        return _entries_after(self._notices, after)


Folders = Callable[[], Sequence[Path]]
RunningCall = Callable[[], "tuple[int, Id] | None"]
"""Type of a function that returns the connection and id of the running call. None outside of calls."""


LOGGER_PREFIX = "mcpdesk."
"""Prefix of the names of this program's loggers."""


class JournalHandler(logging.Handler):
    """Logging handler that writes to a journal. For records from hosted folders it adds the source line."""

    def __init__(self, journal: Journal, folders: Folders, running: RunningCall = lambda: None) -> None:
        super().__init__()
        self._journal = journal
        self._folders = folders
        self._running = running

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record.

        Never raises: if the arguments do not fit the message, the message is shown unformatted.
        """
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = f"{record.msg} {record.args}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        where = self._location(record)
        call = self._running()
        # The rate is limited only for this program's own loggers, not for hosted code.
        cause = f"{record.name}:{text}" if record.name.startswith(LOGGER_PREFIX) else ""
        self._journal.log(record.levelname.lower(), record.name, text, where, call=call, cause=cause)

    def _location(self, record: logging.LogRecord) -> str:
        """Return the attribute `where` of a record, or its source line in a hosted folder, or "" if neither
        exists.
        """
        if isinstance(where := getattr(record, "where", None), str):
            return where
        path = Path(record.pathname)
        for folder in self._folders():
            if path.is_relative_to(folder):
                return f"{path.relative_to(folder)}:{record.lineno}"
        return ""


@contextmanager
def logging_to(journal: Journal, folders: Folders, running: RunningCall = lambda: None) -> Iterator[None]:
    """Send log records of level INFO and above only to the journal while the block runs."""
    root = logging.getLogger()
    handler = JournalHandler(journal, folders, running)
    old_handlers, old_level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = old_handlers
        root.setLevel(old_level)
        journal.flush()
