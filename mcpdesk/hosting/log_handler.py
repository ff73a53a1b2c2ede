"""Python's logging, of ours and of hosted code, as lines of the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mcpdesk.hosting.journal import Journal

Folders = Callable[[], Sequence[Path]]


class JournalHandler(logging.Handler):
    """Hands records to a journal; a record from a hosted folder's file knows its place there."""

    def __init__(self, journal: Journal, folders: Folders) -> None:
        super().__init__()
        self._journal = journal
        self._folders = folders

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record. Never raises: a bad format of theirs is shown as it is."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = f"{record.msg} {record.args}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        self._journal.log(record.levelname.lower(), record.name, text, self._place(record))

    def _place(self, record: logging.LogRecord) -> str:
        path = Path(record.pathname)
        for folder in self._folders():
            if path.is_relative_to(folder):
                return f"{path.relative_to(folder)}:{record.lineno}"
        return ""


@contextmanager
def logging_to(journal: Journal, folders: Folders) -> Iterator[None]:
    """Send everything from level INFO up to the journal, and nowhere else, while the block runs."""
    root = logging.getLogger()
    handler = JournalHandler(journal, folders)
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
