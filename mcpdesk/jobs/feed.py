"""Output of a running call besides its result: text, progress, files.

No output is queued for a reader. A reader passes a cursor and gets the output after that position. Only the
end of each stream is kept, so that a slow reader cannot fill the memory. Such a reader misses the middle of
the output, and the update contains the number of missing characters.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec import Struct

TAIL_LENGTH = 64 << 10
"""Number of characters of each stream that are kept after the call. While the call runs, up to twice as many
are kept.
"""
MAX_PIECES = 256
"""The stored pieces of a stream are joined after this many writes, even if no reader asks for them."""
MAX_FILES = 1000
"""Maximum number of files that one call may report. Further files are dropped."""
MAX_MESSAGE_LENGTH = 1000
"""Maximum length in characters of a progress message."""
OMISSION_NOTE = "[... earlier output left out ...]\n"


class ProgressReport(NamedTuple):
    """Progress of a call."""

    value: float
    total: float | None = None
    message: str = ""

    @property
    def share(self) -> float:
        """Completed share from 0 to 1, or the reported value if the total is unknown."""
        return min(1.0, max(0.0, self.value / self.total)) if self.total else self.value


class Cursor(NamedTuple):
    """Position of a reader. The default is the start of the output. `CallFeed.since` returns later ones."""

    stdout: int = 0
    stderr: int = 0
    progress: int = 0
    files: int = 0


START = Cursor()


class FeedUpdate(Struct, frozen=True):
    """Output since a reader's cursor, and its next cursor. Empty members mean that nothing is new."""

    cursor: Cursor
    stdout: str = ""
    stderr: str = ""
    progress: ProgressReport | None = None
    """Latest report. Earlier reports are omitted."""
    files: tuple[Path, ...] = ()
    missed: tuple[int, int] = (0, 0)
    """Number of dropped characters of stdout and of stderr between the reader's cursor and the texts."""

    def __bool__(self) -> bool:
        return bool(self.stdout or self.stderr or self.progress or self.files)


class _Tail:
    """End of a text stream, and its total length."""

    def __init__(self, kept_length: int) -> None:
        self.size = 0
        """Total number of characters added."""
        self._kept_length = kept_length
        self._stored_length = 0
        """Total length of `_pieces`: at most twice `kept_length`."""
        self._pieces: list[str] = []
        """Stored text, in pieces. The pieces are joined when the text is read or has grown too much, not at
        each write.
        """

    def add(self, text: str) -> None:
        self.size += len(text)
        self._stored_length += len(text)
        self._pieces.append(text)
        if self._stored_length > 2 * self._kept_length or len(self._pieces) >= MAX_PIECES:
            self._join()

    def since(self, position: int) -> tuple[str, int]:
        """Return the text after a position, and the number of dropped characters before it."""
        text = self._join()
        start = self.size - len(text)
        return text[max(0, position - start) :], max(0, start - position)

    def end(self) -> str:
        return self._join()[-self._kept_length :]

    def shrink(self) -> int:
        """Drop all text except the part that `end` returns. Return the length of this part."""
        self._store(self.end())
        return self._stored_length

    def _join(self) -> str:
        """Join the pieces into one, without the text that is no longer kept. Return the piece."""
        text = "".join(self._pieces)
        return self._store(text if len(text) <= 2 * self._kept_length else text[-self._kept_length :])

    def _store(self, text: str) -> str:
        self._pieces, self._stored_length = [text], len(text)
        return text


class CallFeed:
    """Output of one running call. Written and read on any thread.

    Listeners are called after every change, on the thread that made the change. They must not block.
    """

    def __init__(self, tail: int = TAIL_LENGTH) -> None:
        self._lock = Lock()
        self._stdout, self._stderr, self._combined = _Tail(tail), _Tail(tail), _Tail(tail)
        self._progress: ProgressReport | None = None
        self._report_count = 0
        """Number of progress reports."""
        self._files: list[Path] = []
        self._listeners: dict[int, Callable[[], None]] = {}

    @property
    def size(self) -> int:
        """Characters written so far to both streams."""
        return self._stdout.size + self._stderr.size

    @property
    def latest(self) -> ProgressReport | None:
        """Latest progress, or None before the first report."""
        return self._progress

    @property
    def files(self) -> tuple[Path, ...]:
        """Produced files without duplicates, in order."""
        with self._lock:
            return tuple(self._files)

    def stdout(self, text: str) -> None:
        """Add text to standard output."""
        self._write(self._stdout, text)

    def stderr(self, text: str) -> None:
        """Add text to standard error."""
        self._write(self._stderr, text)

    def progress(self, value: float, total: float | None = None, message: str = "") -> None:
        """Report progress. A value that is not finite is ignored."""
        if not math.isfinite(value):
            return
        if total is not None and not (math.isfinite(total) and total > 0):
            total = None
        with self._lock:
            self._progress = ProgressReport(value, total, _sendable(message[:MAX_MESSAGE_LENGTH]))
            self._report_count += 1
        self._notify()

    def add_file(self, path: Path) -> None:
        """Report an existing file that the call produced, by its absolute path."""
        with self._lock:
            if path in self._files or len(self._files) >= MAX_FILES:
                return
            self._files.append(path)
        self._notify()

    def tails(self) -> tuple[str, str]:
        """Return the ends of both streams."""
        with self._lock:
            return self._stdout.end(), self._stderr.end()

    def ends(self, max_length: int) -> tuple[str, str]:
        """Return the last `max_length` characters of each stream.

        If text of a stream was omitted, the first line says so.
        """
        with self._lock:
            return _ending(self._stdout, max_length), _ending(self._stderr, max_length)

    def shrink(self) -> int:
        """Drop all output except the ends of the streams, when the call is over. Return the approximate size
        of the ends in bytes.
        """
        with self._lock:
            return self._stdout.shrink() + self._stderr.shrink() + self._combined.shrink()

    def since(self, cursor: Cursor = START) -> FeedUpdate:
        """Return the output after a reader's cursor."""
        with self._lock:
            stdout, lost_stdout_length = self._stdout.since(cursor.stdout)
            stderr, lost_stderr_length = self._stderr.since(cursor.stderr)
            return FeedUpdate(
                Cursor(self._stdout.size, self._stderr.size, self._report_count, len(self._files)),
                stdout,
                stderr,
                self._progress if self._report_count > cursor.progress else None,
                tuple(self._files[cursor.files :]),
                (lost_stdout_length, lost_stderr_length),
            )

    def combined_output(self, after: int) -> tuple[str, int, int]:
        """Return the text of both streams after a position, in order of arrival, with its start and end.

        Positions count characters of both streams. If text after `after` was dropped, the start is later than
        `after`.
        """
        with self._lock:
            text, lost_length = self._combined.since(max(0, after))
            return text, max(0, after) + lost_length, self._combined.size

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change. Call the returned function to stop that."""
        key = id(listener)
        with self._lock:
            self._listeners[key] = listener

        def stop_listening() -> None:
            with contextlib.suppress(KeyError):
                del self._listeners[key]

        return stop_listening

    def _write(self, tail: _Tail, text: str) -> None:
        if not text:
            return
        text = _sendable(text)
        with self._lock:
            tail.add(text)
            self._combined.add(text)
        self._notify()

    def _notify(self) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener()


def _ending(tail: _Tail, max_length: int) -> str:
    text = tail.end()
    if tail.size <= min(max_length, len(text)):
        return text
    text_length = max(0, max_length - len(OMISSION_NOTE))
    return f"{OMISSION_NOTE}{text[max(0, len(text) - text_length) :]}"


def _sendable(text: str) -> str:
    """Return text without lone surrogates, which JSON does not allow."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
