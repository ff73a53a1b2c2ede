"""A program's output that is read while it comes: what of it is progress, and what is text.

Two forms of progress. `json-lines`: objects on lines of their own (`{"progress": 3, "message": "reading"}`),
which are no part of the text any more. `percent`: the last `NN%` of a line, where a line that is written over
keeps what stood there last, as a terminal does.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import orjson

from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.output import WHOLE_BYTES, Output, Stream

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
    """An output that calls `on_text` and `on_progress` on the thread that reads it."""

    def __init__(
        self,
        folder: Path | None,
        form: str,
        on_text: Callable[[Stream, str], None],
        on_progress: Callable[[ProgressReport], None],
        given: int = WHOLE_BYTES,
    ) -> None:
        super().__init__(folder, given=given)
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
