"""Log lines and notices of a core, numbered and limited in number, with Python's logging as a source."""

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

from mcpdesk.hosting.changes import Changes
from mcpdesk.hosting.log_limits import LogLimits
from mcpdesk.protocol.jsonrpc import Id

KEPT_LINES = 20_000
KEPT_NOTICES = 200
LONGEST_LINE = 16_384
"""Length limit of a log line in characters; the rest is cut off."""


class Severity(StrEnum):
    """Severity of a notice."""

    INFO = "information"
    WARNING = "warning"
    ERROR = "error"


class Notice(Struct, frozen=True):
    """A short message for the person at the screen. `screen` names the pane with the detail."""

    number: int
    text: str
    severity: Severity
    screen: str
    """`workbench`, `traffic`, `activity`, `clients` or `logs`, or a part of one: `activity/jobs`;
    `workbench/save/NAME` shows what a save of that server changed.
    """


class LogLine(Struct, frozen=True):
    """One line of the log: from the server, a hosted tool, a child process or a stray print."""

    number: int
    time: float
    """Unix time in seconds."""
    level: str
    """Logging level of the specification: debug, info, notice, warning, error, critical ..."""
    source: str
    """`server`, `stderr`, `print`, or a logger's name."""
    text: str
    where: str = ""
    """Place such as `tools/slow.py:14`, if known."""
    server: str = ""
    trace: str = ""
    """Id of the trace its request belongs to."""
    call: tuple[int, Id] | None = None
    """Connection and id of the request it belongs to, if known."""
    tool: str = ""
    """Tool that the request called, if a front end needs it."""
    replica: str = ""
    """Replica that logged it, on a desk that shows several machines."""


NumberedEntry = TypeVar("NumberedEntry", LogLine, Notice)


def _after(kept: deque[NumberedEntry], number: int) -> list[NumberedEntry]:
    """Return the entries numbered above `number`, oldest first. New entries are appended at the end."""
    if not kept or kept[-1].number <= number:
        return []
    # Copy, because another thread may append at the same time.
    fresh = list(takewhile(lambda entry: entry.number > number, reversed(kept.copy())))
    return fresh[::-1]


class Journal:
    """Log lines and notices of one core. Any thread may write and read."""

    def __init__(self, on_entry: Callable[[], object] = lambda: None) -> None:
        """`on_entry` is called after every line and every notice, on the thread that wrote it."""
        self.changes = Changes()
        """Notified after every line and every notice, on the thread that wrote it."""
        self.changes.listen(on_entry)
        self._lines: deque[LogLine] = deque(maxlen=KEPT_LINES)
        self._notices: deque[Notice] = deque(maxlen=KEPT_NOTICES)
        self._line_numbers = count()
        self._notice_numbers = count()
        self._limits = LogLimits()
        self.origin_of: Callable[[tuple[int, Id]], tuple[str, str]] | None = None
        """Returns server and tool of a running call. None if lines need no tool."""
        self.keep_for_call: Callable[[LogLine], None] | None = None
        """Called with every line of a call, on any thread. None if these lines are not recorded."""

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
        """Add one line. `where` is `file:line` if known, `trace` the id of the caller's trace.

        `call` has the connection and id of the request it belongs to, if known. `at` is the Unix time in
        seconds; None means now. Of lines with the same `cause`, one a second is kept, with the number of
        lines it represents; without a cause, all are kept.
        """
        if cause:
            rest = (where, server, trace, call, at)
            return self._limits.put(cause, lambda more: self.log(level, source, text + more, *rest))
        cut = text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + " ..."
        tool = ""
        if call is not None and self.origin_of is not None:
            found, tool = self.origin_of(call)
            server = server or found
        said = time.time() if at is None else at
        line = LogLine(0, said, level, source, cut, where, server, trace, call, tool)
        self.keep_line(line)
        if call is not None and self.keep_for_call is not None:
            self.keep_for_call(line)

    def keep_line(self, line: LogLine) -> None:
        """Add a line, with a new number."""
        self._lines.append(structs.replace(line, number=next(self._line_numbers)))
        self.changes.note()

    def keep_notice(self, notice: Notice) -> None:
        """Add a notice, with a new number and without a log line."""
        self._notices.append(structs.replace(notice, number=next(self._notice_numbers)))
        self.changes.note()

    def notify(
        self,
        text: str,
        severity: Severity = Severity.INFO,
        screen: str = "logs",
        cause: str = "",
        logged: str = "",
    ) -> None:
        """Add a notice, and its text as a log line. `cause` is as for `log`.

        `logged` is the text of the log line, if it differs from that of the notice.
        """
        if cause:
            rest = (severity, screen, "", logged)
            return self._limits.put(cause, lambda more: self.notify(text + more, *rest))
        self.keep_notice(Notice(0, text, severity, screen))
        level = "info" if severity is Severity.INFO else severity.value
        self.log(level, "server", logged or text)

    @property
    def is_counting(self) -> bool:
        """True if lines of one cause are being counted, and their number is written within a second."""
        return self._limits.is_active

    def flush(self) -> None:
        """Write the lines that the rate limit holds back. Call it when the process that logs here ends."""
        self._limits.flush(is_last=True)

    def lines(self, after: int = -1) -> list[LogLine]:
        """Return the log lines numbered above `after`, oldest first."""
        self._limits.flush()
        return _after(self._lines, after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Return the notices numbered above `after`, oldest first."""
        return _after(self._notices, after)


Folders = Callable[[], Sequence[Path]]
Running = Callable[[], "tuple[int, Id] | None"]
"""Returns connection and id of the call that the running code answers, or None outside of calls."""


OURS = "mcpdesk."
"""Prefix of the names of this program's loggers."""


class JournalHandler(logging.Handler):
    """Logging handler that writes to a journal, with the source line of records from hosted folders."""

    def __init__(self, journal: Journal, folders: Folders, running: Running = lambda: None) -> None:
        super().__init__()
        self._journal = journal
        self._folders = folders
        self._running = running

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. Never raises: a message with an invalid format is shown unformatted."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = f"{record.msg} {record.args}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        where, call = self._place(record), self._running()
        # Lines of hosted code are not rate-limited.
        cause = f"{record.name}:{text}" if record.name.startswith(OURS) else ""
        self._journal.log(record.levelname.lower(), record.name, text, where, call=call, cause=cause)

    def _place(self, record: logging.LogRecord) -> str:
        """The attribute `where` of a record, else its place in a hosted folder."""
        if isinstance(where := getattr(record, "where", None), str):
            return where
        path = Path(record.pathname)
        for folder in self._folders():
            if path.is_relative_to(folder):
                return f"{path.relative_to(folder)}:{record.lineno}"
        return ""


@contextmanager
def logging_to(journal: Journal, folders: Folders, running: Running = lambda: None) -> Iterator[None]:
    """While the block runs, send log records of level INFO and above to the journal only."""
    root = logging.getLogger()
    handler = JournalHandler(journal, folders, running)
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        journal.flush()
