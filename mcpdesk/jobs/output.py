"""Output of a program: both streams in order of arrival. Memory is limited, and large output is written to a
file.

One thread adds output. Any thread may read the output. The two pipes have no common clock, so text that was
written to both at the same moment may arrive in either order. `Reports` is an `Output` that also looks for
progress in the arriving text.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import math
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, TypeAlias

import orjson

from mcpdesk import private_files
from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.output_budget import OutputBudget
from mcpdesk.portable_files import OPEN_FLAGS, read_at

MAX_WHOLE_BYTES = 1 << 20
"""Maximum size in bytes of a stream that is kept completely."""
END_BYTES = 128 << 10
"""Number of bytes that are kept from the start, and as many from the end, of a larger stream."""
MAX_NOTE_LENGTH = 50
"""Maximum length in characters of the line about omitted bytes, without the hint."""


class Excerpt:
    """Byte stream. All bytes of a small stream are kept, but only the start and the end of a large stream.
    Not thread-safe.
    """

    def __init__(self, limit: int = MAX_WHOLE_BYTES, end_bytes: int = END_BYTES) -> None:
        """Keep all of a stream that has at most `limit` bytes. Of a larger stream, keep `end_bytes` bytes
        from the start, and as many from the end.
        """
        self.size = 0
        """Total bytes added."""
        self._limit, self._end_bytes = limit, end_bytes
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def is_cut(self) -> bool:
        """True if bytes were omitted."""
        return self.size > self._limit

    def is_longer(self, max_length: int) -> bool:
        """Return True if the stream has more than `max_length` characters."""
        return self.is_cut or (
            self.size > max_length and len(self._head.decode("utf-8", "replace")) > max_length
        )

    @property
    def head(self) -> bytes:
        """Bytes from the start of the stream. These are all bytes if none were omitted."""
        return bytes(self._head)

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        was_cut = self.is_cut
        self.size += len(data)
        if not self.is_cut:
            self._head += data
            return
        if not was_cut:
            self._split()
        free_length = self._end_bytes - len(self._head)
        self._head += data[:free_length]
        self._tail += data[free_length:][-self._end_bytes :]
        if len(self._tail) > 2 * self._end_bytes:
            del self._tail[: -self._end_bytes]

    def text(self, hint: str = "", max_length: int | None = None) -> str:
        """Return the stream as text. If bytes are omitted, a line states their number, and ends with `hint`.

        The text has at most `max_length` characters, including that line. If `max_length` is None, return all
        bytes that were kept.
        """
        head = self._head.decode("utf-8", "replace")
        if not self.is_cut and (max_length is None or len(head) <= max_length):
            return head
        tail = _decode_partial(self._tail[-self._end_bytes :]) if self.is_cut else head
        head = head.rstrip("\ufffd") if self.is_cut else head
        if max_length is not None:
            half = max(0, (max_length - MAX_NOTE_LENGTH - len(hint)) // 2)
            head, tail = head[:half], tail[max(0, len(tail) - half) :]
        omitted_bytes = self.size - len(head.encode()) - len(tail.encode())
        return f"{head}\n[... {omitted_bytes:,} bytes left out{hint} ...]\n{tail}"

    def end(self, limit: int) -> str:
        """Return the last `limit` bytes as text."""
        data = self._tail or self._head
        return _decode_partial(data[-limit:]) if len(data) > limit else data.decode("utf-8", "replace")

    def _split(self) -> None:
        self._tail = self._head[self._end_bytes :][-self._end_bytes :]
        del self._head[self._end_bytes :]


def _decode_partial(data: bytearray) -> str:
    """Decode bytes that may start inside a character."""
    return data.decode("utf-8", "replace").lstrip("\ufffd")


Stream = Literal["stdout", "stderr"]

MAX_FILE_BYTES = 1 << 30
"""Maximum size in bytes of an output file, so that a program cannot fill the disk."""
NEWEST_BYTES, NEWEST_END_BYTES = 32 << 10, 8 << 10
"""Like `MAX_WHOLE_BYTES` and `END_BYTES`, for the part in memory of an output whose file has all bytes."""
MAX_FILES = 100
"""Maximum number of output files in a folder; a new file replaces the oldest."""


class Output:
    """All output of one program. Large output goes to a new file in `folder`, unless `folder` is None.

    With `file`, all output goes to this file. Of large output, only the start and the end stay in memory, and
    not separately for each stream.
    """

    def __init__(
        self,
        folder: Path | None = None,
        file: Path | None = None,
        reader_length: int = MAX_WHOLE_BYTES,
        budget: OutputBudget | None = None,
    ) -> None:
        """`reader_length` is the maximum number of characters that the caller will read. Larger output is
        written to a file.

        `budget` is the disk space that all files share, or None for unlimited space.
        """
        self.file: Path | None = file
        """File with the full output, or None."""
        self.written = 0
        """Size of the file in bytes."""
        self.problem = ""
        """Reason why `file` is missing or incomplete."""
        self._folder = folder
        self._reader_length = min(reader_length, MAX_WHOLE_BYTES)
        self._all = Excerpt() if file is None else Excerpt(NEWEST_BYTES, NEWEST_END_BYTES)
        self._streams = {"stdout": Excerpt(), "stderr": Excerpt()} if file is None else {}
        self._used_streams: set[Stream] = set()
        """Streams with any output."""
        self._lock = Lock()
        self._budget = budget
        self._is_removed = False
        self._descriptor: int | None = None
        if file is not None:
            self._open(file)
        self._listener: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        """Number of bytes written so far to both streams."""
        return self._all.size

    @property
    def is_cut(self) -> bool:
        """True if `text` omits bytes."""
        return self._all.is_cut

    @property
    def has_both_streams(self) -> bool:
        """True if both streams have output. The order of the output is then uncertain."""
        return len(self._used_streams) > 1

    def is_longer(self, max_length: int) -> bool:
        """Return True if both streams together have more than `max_length` characters."""
        with self._lock:
            return self._all.is_longer(max_length)

    def add(self, stream: Stream, data: bytes) -> None:
        """Add data that was read from a stream."""
        with self._lock:
            self._spill(data)
            self._all.add(data)
            self._used_streams.add(stream)
            if stream in self._streams:
                self._streams[stream].add(data)
            listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def close(self) -> None:
        """Close the file, because no more output will arrive."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            # With `file`, `read` still reads the file after this. Its removal must still be reported.
            if self._budget is not None and self.file is not None and self._folder is not None:
                self._budget.unwatch(self.file)

    def notify(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, at the next output, on the thread that adds it."""
        with self._lock:
            self._listener = listener

    def text(self, max_length: int | None = None) -> str:
        """Return both streams in order of arrival, with at most `max_length` characters."""
        with self._lock:
            return self._all.text(self._hint, max_length)

    def stream(self, stream: Stream, max_length: int | None = None) -> str:
        """Return one stream, with at most `max_length` characters. Not available with `file`."""
        with self._lock:
            return self._streams[stream].text("" if max_length is None else self._hint, max_length)

    @property
    def _hint(self) -> str:
        return f"; the full output is in {self.file}" if self.file else ""

    def end(self, limit: int) -> str:
        """Return the last `limit` bytes of both streams as text."""
        with self._lock:
            return self._all.end(limit)

    def read(self, start: int, limit: int) -> bytes:
        """Return up to `limit` bytes of the file from byte `start` on, or less if the file is shorter.

        Raises: OSError if the file cannot be read.
        """
        if self.file is None or self._is_removed:
            return b""
        descriptor = os.open(self.file, os.O_RDONLY | OPEN_FLAGS)
        try:
            return read_at(descriptor, limit, start)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Delete the file."""
        self.close()
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.unlink()
            if self._budget is not None and not self._is_removed:
                self._budget.unwatch(self.file)
                self._budget.give_back(self.written)

    def _spill(self, data: bytes) -> None:
        """Write data to the file. Create the file first if the output is now too large for the reader."""
        size = self._all.size
        if self.problem or (self._descriptor is None and not self._needs_file(size + len(data))):
            return
        try:
            if self._descriptor is None:
                assert self._folder is not None
                self._open(_new_path(self._folder))
                self._write(self._all.head)
            self._write(data[: MAX_FILE_BYTES - size])
        except OSError as error:
            self.problem = f"not all output could be written to a file: {error}"
        if size + len(data) > MAX_FILE_BYTES and not self.problem:
            self.problem = f"the file holds the first {MAX_FILE_BYTES:,} bytes only"

    def _open(self, path: Path) -> None:
        self._descriptor = private_files.create(path)
        private_files.hold(self._descriptor)
        self.file = path
        if self._budget is not None:
            self._budget.watch(path, self._on_removed)

    def _on_removed(self, reason: str) -> None:
        """Record that the file was deleted to make room."""
        self._is_removed, self.written, self.problem = True, 0, reason

    def _write(self, data: bytes) -> None:
        """Append data to the file, as far as the budget allows. Raises: OSError."""
        assert self._descriptor is not None
        if self._budget is not None and (reserved_bytes := self._budget.reserve(len(data))) < len(data):
            data = data[:reserved_bytes]
            self.problem = (
                f"the file holds the first {self.written + reserved_bytes:,} bytes only: "
                "the outputs of programs exceed outputs_keep_bytes"
            )
        while data:
            byte_count = os.write(self._descriptor, data)
            self.written += byte_count
            data = data[byte_count:]

    def _needs_file(self, size: int) -> bool:
        return self._folder is not None and size > self._reader_length


def write_text(folder: Path, text: str, budget: OutputBudget | None = None) -> Path:
    """Write a text to a new file, and return the path of the file. Raises: OSError."""
    data = text.encode("utf-8", "replace")
    path = _new_path(folder)
    if budget is not None and budget.reserve(len(data)) < len(data):
        raise OSError(errno.EDQUOT, "not enough space is left within outputs_keep_bytes")
    with os.fdopen(private_files.create(path), "wb") as file:
        file.write(data)
    return path


def _new_path(folder: Path) -> Path:
    """Return the path of a new file. If there are too many files, the oldest (by name) are deleted."""
    for path in sorted(folder.glob("output-*.txt"), reverse=True)[MAX_FILES - 1 :]:
        path.unlink(missing_ok=True)
    return folder / f"output-{time.time_ns()}-{secrets.token_hex(3)}.txt"


MAX_UNFINISHED_BYTES = 64 << 10
"""Maximum size in bytes of an unfinished line that is searched for progress. A longer line counts as text."""
MAX_MESSAGE_LENGTH = 200
"""Maximum length in characters of a progress message."""
_PERCENT = re.compile(rb"(?<![\d.])(\d{1,3}(?:\.\d+)?)\s?%")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class _Parsed(NamedTuple):
    text: bytes
    progress: list[ProgressReport]


class _Plain:
    """Passes on the output of programs that do not report progress."""

    def feed(self, data: bytes) -> _Parsed:
        return _Parsed(data, [])

    def end(self) -> bytes:
        return b""


class _JsonLines:
    """Removes objects with a `progress` member from the text.

    An unfinished line that starts with `{` is held back until it is complete.
    """

    def __init__(self) -> None:
        self._unfinished_line = b""
        self._is_in_text_line = False
        """True if the next data continues a line that is text, not a report."""

    def feed(self, data: bytes) -> _Parsed:
        data, self._unfinished_line = self._unfinished_line + data, b""
        complete = bytearray()
        progress: list[ProgressReport] = []
        position = 0
        while position < len(data):
            newline = data.find(b"\n", position)
            line = data[position:] if newline < 0 else data[position : newline + 1]
            first_byte = line.lstrip(b" \t\r")[:1]
            may_be_report = (
                not self._is_in_text_line and first_byte in (b"{", b"") and len(line) <= MAX_UNFINISHED_BYTES
            )
            if newline < 0 and may_be_report:
                self._unfinished_line = line
                break
            report = _parse_report(line) if may_be_report and first_byte else None
            if report is None:
                complete += line
            else:
                progress.append(report)
            self._is_in_text_line = newline < 0
            position += len(line)
        return _Parsed(bytes(complete), progress)

    def end(self) -> bytes:
        unfinished_line, self._unfinished_line = self._unfinished_line, b""
        return unfinished_line if _parse_report(unfinished_line) is None else b""


class _Percent:
    """Finds percentages, and removes text that was overwritten."""

    def __init__(self) -> None:
        self._unfinished_line = b""
        self._last_percentage: float | None = None

    def feed(self, data: bytes) -> _Parsed:
        complete = bytearray()
        progress: list[ProgressReport] = []
        *lines, unfinished_line = (self._unfinished_line + data).split(b"\n")
        if b"%" in data:  # new percentages need a new percent sign
            for line in (*lines, unfinished_line):
                self._find_percentages(line, progress)
        for line in lines:
            complete += _final_text(line) + b"\n"
        if b"\r" in unfinished_line:
            # A final \r is kept, because a \n may follow it, or text that overwrites the line.
            final_return = b"\r" if unfinished_line.endswith(b"\r") else b""
            unfinished_line = _final_text(unfinished_line) + final_return
        if len(unfinished_line) > MAX_UNFINISHED_BYTES:
            complete += unfinished_line
            unfinished_line = b""
        self._unfinished_line = unfinished_line
        return _Parsed(bytes(complete), progress)

    def end(self) -> bytes:
        unfinished_line, self._unfinished_line = self._unfinished_line, b""
        return _final_text(unfinished_line)

    def _find_percentages(self, line: bytes, progress: list[ProgressReport]) -> None:
        for part in line.split(b"\r"):
            percentages = [float(each) for each in _PERCENT.findall(part)]
            value = percentages[-1] if percentages else math.inf
            if value <= 100 and value != self._last_percentage:
                self._last_percentage = value
                progress.append(ProgressReport(value, 100, _message(part.decode("utf-8", "replace"))))


_Parser: TypeAlias = _Plain | _JsonLines | _Percent


_PARSERS: dict[str, Callable[[], _Parser]] = {"": _Plain, "json-lines": _JsonLines, "percent": _Percent}


class Reports(Output):
    """Output that calls `on_text` and `on_progress`, on the thread that adds output.

    `form` is the format of progress reports:

    * `json-lines`: objects on separate lines, such as `{"progress": 3, "message": "reading"}`. They are
      removed from the text.
    * `percent`: the last `NN%` of a line. If the program overwrites a line, the text keeps only its final
      version, like a terminal.
    * an empty text: the program reports no progress.
    """

    def __init__(
        self,
        folder: Path | None,
        form: str,
        on_text: Callable[[Stream, str], None],
        on_progress: Callable[[ProgressReport], None],
        reader_length: int = MAX_WHOLE_BYTES,
        budget: OutputBudget | None = None,
    ) -> None:
        super().__init__(folder, reader_length=reader_length, budget=budget)
        self._parsers: dict[Stream, _Parser] = {"stdout": _PARSERS[form](), "stderr": _PARSERS[form]()}
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._parsers}
        self._on_text = on_text
        self._on_progress = on_progress

    def add(self, stream: Stream, data: bytes) -> None:
        """Add data that was read from a stream."""
        text, progress = self._parsers[stream].feed(data)
        for report in progress:
            self._on_progress(report)
        if text:
            self._add_decoded(stream, text, False)

    def close(self) -> None:
        """Add the remaining text and close the file."""
        for stream, parser in self._parsers.items():
            self._add_decoded(stream, parser.end(), True)
        super().close()

    def _add_decoded(self, stream: Stream, data: bytes, is_last: bool) -> None:
        if data:
            super().add(stream, data)
        if text := self._decoders[stream].decode(data, is_last):
            self._on_text(stream, text)


def _parse_report(line: bytes) -> ProgressReport | None:
    """Return the progress that a line reports, or None if the line is text."""
    try:
        report = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    value = _number(report.get("progress")) if isinstance(report, dict) else None
    if value is None:
        return None
    message = report.get("message")
    return ProgressReport(
        value, _number(report.get("total")), _message(message) if isinstance(message, str) else ""
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _message(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()[:MAX_MESSAGE_LENGTH]


def _final_text(line: bytes) -> bytes:
    """Return the final version of an overwritten line, as a terminal shows it."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
