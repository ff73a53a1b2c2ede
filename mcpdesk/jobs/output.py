"""What a program wrote: both streams in order of arrival, bounded in memory, the whole in a file if large.

One thread adds, any thread reads. Two pipes have no common clock: what is written to both within the same
instant may arrive the other way round. `Reports` is an output that is read for progress while it comes.
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
from typing import Literal, NamedTuple, Protocol

import orjson

from mcpdesk import private_files
from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.output_budget import OutputBudget

WHOLE_BYTES = 1 << 20
"""A stream up to this size is kept whole."""
END_BYTES = 128 << 10
"""Of a larger stream this much is kept of each end."""
NOTE_LENGTH = 50
"""Characters of the line that says how much is left out, without the hint."""


class Excerpt:
    """A byte stream bounded in memory: the whole of a small one, else both ends. Not thread-safe."""

    def __init__(self, whole: int = WHOLE_BYTES, end: int = END_BYTES) -> None:
        self.size = 0
        """Bytes seen."""
        self._whole, self._end = whole, end
        self._head = bytearray()
        self._tail = bytearray()

    @property
    def is_cut(self) -> bool:
        """Whether something is left out."""
        return self.size > self._whole

    def is_longer(self, most: int) -> bool:
        """Whether the stream has more than `most` characters."""
        return self.is_cut or (self.size > most and len(self._head.decode("utf-8", "replace")) > most)

    @property
    def head(self) -> bytes:
        """The bytes kept from the start; everything while nothing is left out."""
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
        room = self._end - len(self._head)
        self._head += data[:room]
        self._tail += data[room:][-self._end :]
        if len(self._tail) > 2 * self._end:
            del self._tail[: -self._end]

    def text(self, hint: str = "", most: int | None = None) -> str:
        """The stream as text. Where bytes are left out, a line says how many, followed by `hint`.

        At most `most` characters, that line included; None for all that is kept.
        """
        head = self._head.decode("utf-8", "replace")
        if not self.is_cut and (most is None or len(head) <= most):
            return head
        tail = _from_the_middle(self._tail[-self._end :]) if self.is_cut else head
        head = head.rstrip("\ufffd") if self.is_cut else head
        if most is not None:
            half = max(0, (most - NOTE_LENGTH - len(hint)) // 2)
            head, tail = head[:half], tail[max(0, len(tail) - half) :]
        left_out = self.size - len(head.encode()) - len(tail.encode())
        return f"{head}\n[... {left_out:,} bytes left out{hint} ...]\n{tail}"

    def end(self, limit: int) -> str:
        """The last `limit` bytes as text."""
        kept = self._tail or self._head
        return _from_the_middle(kept[-limit:]) if len(kept) > limit else kept.decode("utf-8", "replace")

    def _split(self) -> None:
        self._tail = self._head[self._end :][-self._end :]
        del self._head[self._end :]


def _from_the_middle(data: bytearray) -> str:
    """Text of bytes that may start inside a character."""
    return data.decode("utf-8", "replace").lstrip("\ufffd")


Stream = Literal["stdout", "stderr"]

FILE_BYTES = 1 << 30
"""The largest file, so that a runaway program cannot fill the disk."""
NEWEST_BYTES, NEWEST_END = 32 << 10, 8 << 10
"""What is kept in memory of output that can be read from a file."""
FILES_KEPT = 100
"""When a new file is begun the oldest of the folder are removed, until there are no more than these."""


class Output:
    """Everything one program wrote. Large output goes to a new file in `folder`; None makes no file.

    With `file` all output goes to that file from the first byte on, and only the newest part stays in memory.
    """

    def __init__(
        self,
        folder: Path | None = None,
        file: Path | None = None,
        given: int = WHOLE_BYTES,
        budget: OutputBudget | None = None,
    ) -> None:
        """`given` is how many characters a reader gets: output with more bytes than that goes to a file.

        `budget` is the disk space that all files share; None: no limit.
        """
        self.file: Path | None = file
        """The file with the whole output, once there is one."""
        self.kept = 0
        """Bytes in the file."""
        self.problem = ""
        """Why `file` is missing or not whole."""
        self._folder = folder
        self._given = min(given, WHOLE_BYTES)
        self._all = Excerpt() if file is None else Excerpt(NEWEST_BYTES, NEWEST_END)
        self._streams = {"stdout": Excerpt(), "stderr": Excerpt()} if file is None else {}
        self._seen: set[Stream] = set()
        """Streams to which something was written."""
        self._lock = Lock()
        self._budget = budget
        self._is_removed = False
        self._descriptor: int | None = None
        if file is not None:
            self._open(file)
        self._listener: Callable[[], None] | None = None

    @property
    def size(self) -> int:
        """Bytes written so far, both streams."""
        return self._all.size

    @property
    def is_cut(self) -> bool:
        """Whether the texts leave something out."""
        return self._all.is_cut

    @property
    def has_both_streams(self) -> bool:
        """Whether something was written to each of the two streams, so that their order is not certain."""
        return len(self._seen) > 1

    def is_longer(self, most: int) -> bool:
        """Whether both streams have more than so many characters."""
        with self._lock:
            return self._all.is_longer(most)

    def add(self, stream: Stream, data: bytes) -> None:
        """Add what was read from a stream."""
        with self._lock:
            self._spill(data)
            self._all.add(data)
            self._seen.add(stream)
            if stream in self._streams:
                self._streams[stream].add(data)
            listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def close(self) -> None:
        """Close the file: nothing more will come."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            if self._budget is not None and self.file is not None and self._folder is not None:
                self._budget.unwatch(self.file)  # nothing is read from it here

    def notify(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, when the next output comes, on the thread that adds it."""
        with self._lock:
            self._listener = listener

    def text(self, most: int | None = None) -> str:
        """Both streams in order of arrival; at most `most` characters."""
        with self._lock:
            return self._all.text(self._hint, most)

    def stream(self, stream: Stream, most: int | None = None) -> str:
        """One stream; at most `most` characters."""
        with self._lock:
            return self._streams[stream].text("" if most is None else self._hint, most)

    @property
    def _hint(self) -> str:
        return f"; all of it is in {self.file}" if self.file else ""

    def end(self, limit: int) -> str:
        """The last `limit` bytes of both streams as text."""
        with self._lock:
            return self._all.end(limit)

    def read(self, start: int, limit: int) -> bytes:
        """At most `limit` bytes of the file from byte `start` on; what is not there yet is left out.

        Raises: OSError when the file cannot be read.
        """
        if self.file is None or self._is_removed:
            return b""
        descriptor = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, limit, start)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the file."""
        self.close()
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.unlink()
            if self._budget is not None and not self._is_removed:
                self._budget.unwatch(self.file)
                self._budget.give_back(self.kept)

    def _spill(self, data: bytes) -> None:
        size = self._all.size
        if self.problem or (self._descriptor is None and not self._is_file_due(size + len(data))):
            return
        try:
            if self._descriptor is None:
                assert self._folder is not None
                self._open(_new_path(self._folder))
                self._write(self._all.head)
            self._write(data[: FILE_BYTES - size])
        except OSError as error:
            self.problem = f"the output could not all be written to a file: {error}"
        if size + len(data) > FILE_BYTES and not self.problem:
            self.problem = f"the file holds the first {FILE_BYTES:,} bytes only"

    def _open(self, path: Path) -> None:
        self._descriptor = private_files.create(path)
        private_files.hold(self._descriptor)
        self.file = path
        if self._budget is not None:
            self._budget.watch(path, self._removed)

    def _removed(self, reason: str) -> None:
        """The file was removed to make room."""
        self._is_removed, self.kept, self.problem = True, 0, reason

    def _write(self, data: bytes) -> None:
        assert self._descriptor is not None
        if self._budget is not None and (room := self._budget.take(len(data))) < len(data):
            data = data[:room]
            self.problem = (
                f"the file holds the first {self.kept + room:,} bytes only: "
                "the outputs of programs exceed outputs_keep_bytes"
            )
        while data:
            written = os.write(self._descriptor, data)
            self.kept += written
            data = data[written:]

    def _is_file_due(self, size: int) -> bool:
        return self._folder is not None and size > self._given


def kept_text(folder: Path, text: str, budget: OutputBudget | None = None) -> Path:
    """Write a text, of which a reader gets only a part, to a new file. Raises: OSError."""
    data = text.encode("utf-8", "replace")
    path = _new_path(folder)
    if budget is not None and budget.take(len(data)) < len(data):
        raise OSError(errno.EDQUOT, "it is larger than outputs_keep_bytes")
    with os.fdopen(private_files.create(path), "wb") as file:
        file.write(data)
    return path


def _new_path(folder: Path) -> Path:
    """Path of a new file. If there are too many, the oldest are removed; their names sort by age."""
    for path in sorted(folder.glob("output-*.txt"), reverse=True)[FILES_KEPT - 1 :]:
        path.unlink(missing_ok=True)
    return folder / f"output-{time.time_ns()}-{secrets.token_hex(3)}.txt"


LONGEST = 64 << 10
"""The longest unfinished line, in bytes, that is searched for progress; a longer one is text."""
MESSAGE_LENGTH = 200
_PERCENT = re.compile(rb"(?<![\d.])(\d{1,3}(?:\.\d+)?)\s?%")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class _Read(NamedTuple):
    text: bytes
    progress: list[ProgressReport]


class _Reader(Protocol):
    def feed(self, data: bytes) -> _Read: ...
    def end(self) -> bytes: ...


class _Plain:
    """Everything is text."""

    def feed(self, data: bytes) -> _Read:
        return _Read(data, [])

    def end(self) -> bytes:
        return b""


class _JsonLines:
    """Removes objects with a `progress` from the text. Only lines that begin with `{` wait for their end."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_inside = False
        """Whether the data goes on in the middle of a line that is text."""

    def feed(self, data: bytes) -> _Read:
        data, self._rest = self._rest + data, b""
        kept = bytearray()
        progress: list[ProgressReport] = []
        at = 0
        while at < len(data):
            newline = data.find(b"\n", at)
            line = data[at:] if newline < 0 else data[at : newline + 1]
            begins = line.lstrip(b" \t\r")[:1]
            may_be = not self._is_inside and begins in (b"{", b"") and len(line) <= LONGEST
            if newline < 0 and may_be:
                self._rest = line
                break
            report = _report(line) if may_be and begins else None
            if report is None:
                kept += line
            else:
                progress.append(report)
            self._is_inside = newline < 0
            at += len(line)
        return _Read(bytes(kept), progress)

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return rest if _report(rest) is None else b""


class _Percent:
    """Finds percentages, and leaves out text that was written over."""

    def __init__(self) -> None:
        self._line = b""
        self._last: float | None = None

    def feed(self, data: bytes) -> _Read:
        kept = bytearray()
        progress: list[ProgressReport] = []
        *lines, rest = (self._line + data).split(b"\n")
        if b"%" in data:  # else there is nothing that was not looked at before
            for line in (*lines, rest):
                self._look(line, progress)
        for line in lines:
            kept += _last_written(line) + b"\n"
        if b"\r" in rest:
            rest = _last_written(rest) + (b"\r" if rest.endswith(b"\r") else b"")
        if len(rest) > LONGEST:
            kept += rest
            rest = b""
        self._line = rest
        return _Read(bytes(kept), progress)

    def end(self) -> bytes:
        rest, self._line = self._line, b""
        return _last_written(rest)

    def _look(self, line: bytes, progress: list[ProgressReport]) -> None:
        for part in line.split(b"\r"):
            shares = [float(share) for share in _PERCENT.findall(part)]
            value = shares[-1] if shares else math.inf
            if value <= 100 and value != self._last:
                self._last = value
                progress.append(ProgressReport(value, 100, _message(part.decode("utf-8", "replace"))))


_READERS: dict[str, Callable[[], _Reader]] = {"": _Plain, "json-lines": _JsonLines, "percent": _Percent}


class Reports(Output):
    """An output that calls `on_text` and `on_progress` on the thread that reads it.

    `form` says how the program reports progress. `json-lines`: objects on lines of their own
    (`{"progress": 3, "message": "reading"}`), which are left out of the text. `percent`: the last `NN%` of a
    line; of a line that is written over, the text keeps what stood there last, as a terminal does. Empty: not
    at all.
    """

    def __init__(
        self,
        folder: Path | None,
        form: str,
        on_text: Callable[[Stream, str], None],
        on_progress: Callable[[ProgressReport], None],
        given: int = WHOLE_BYTES,
        budget: OutputBudget | None = None,
    ) -> None:
        super().__init__(folder, given=given, budget=budget)
        self._readers: dict[Stream, _Reader] = {"stdout": _READERS[form](), "stderr": _READERS[form]()}
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._readers}
        self._on_text = on_text
        self._on_progress = on_progress

    def add(self, stream: Stream, data: bytes) -> None:
        """Add what was read from a stream."""
        text, progress = self._readers[stream].feed(data)
        for each in progress:
            self._on_progress(each)
        if text:
            self._keep(stream, text, False)

    def close(self) -> None:
        """Nothing more will come."""
        for stream, reader in self._readers.items():
            self._keep(stream, reader.end(), True)
        super().close()

    def _keep(self, stream: Stream, text: bytes, is_last: bool) -> None:
        if text:
            super().add(stream, text)
        if told := self._decoders[stream].decode(text, is_last):
            self._on_text(stream, told)


def _report(line: bytes) -> ProgressReport | None:
    """The progress a line reports; None when the line is text."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    value = _number(found.get("progress")) if isinstance(found, dict) else None
    if value is None:
        return None
    message = found.get("message")
    return ProgressReport(
        value, _number(found.get("total")), _message(message) if isinstance(message, str) else ""
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _message(text: str) -> str:
    return _CONTROL.sub(" ", text).strip()[:MESSAGE_LENGTH]


def _last_written(line: bytes) -> bytes:
    """What a terminal shows of a line that was written over."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
