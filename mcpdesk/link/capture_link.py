"""A front end's view of a capture on disk: its traffic, and a core that hosts nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine, Notice, Protection, Severity
from mcpdesk.recorder.archive import MOST_FRAMES, Archive
from mcpdesk.recorder.index.traffic_index import gaps_in_words
from mcpdesk.recorder.record import CallLog, ConnectionInfo

FOLLOW_S = 0.2
"""Seconds between two looks at a capture that is being written."""
FIRST_S = 0.05
"""Seconds a capture is read before it is shown; the rest is read behind the screen."""
_SLICE_S = 0.02
_FIRST_S = 1.5
"""Seconds from the first look during which the screen draws itself, and reading leaves it the processor."""
_FIRST_REST_S = 0.04
_REST_S = 0.002
"""Seconds between two slices of reading, so that the screen is never kept waiting for long."""


class CaptureLink(Link):
    """Implements `Link` over an archive: the traffic, and notices of what could not be read.

    A thread reads and pairs what the archive has not read yet. A capture that somebody writes is followed
    until that has ended.
    """

    def __init__(self, archive: Archive, told: str = "") -> None:
        """`told` is the first notice, if any."""
        self.path: Path = archive.path
        self.traffic = archive.index
        self._archive = archive
        self._notices: list[Notice] = []
        if told:
            self._add(told, Severity.INFO)
        self._told = set[str]()
        self._began = False
        self._closed = Event()
        self._follower = Thread(target=self._follow, name="follow", daemon=True)
        if not archive.is_behind:
            self._tell()

    def view(self) -> CoreView:
        """The path of the capture, and whether it grows. The first look begins to read what is left of it."""
        if not self._began:
            # Not before: the screen that looks would be drawn later by as much as is read meanwhile.
            self._began = True
            if self._archive.is_live or self._archive.is_behind:
                self._follower.start()
        path, grows = str(self.path), self._archive.is_live
        return CoreView((), (), Protection.OFFLINE, capture_path=path, capture_grows=grows)

    def notices(self, after: int = -1) -> list[Notice]:
        """What could not be read of the file."""
        return [notice for notice in self._notices if notice.number > after]

    def logs(self, after: int = -1) -> list[LogLine]:
        """What the code of calls said, as the capture has it."""
        found, connections = self._archive.call_logs[max(0, after + 1) :], self._archive.connections
        return [_line(number, each, connections) for number, each in enumerate(found, max(0, after + 1))]

    def close(self) -> None:
        """Follow no more, and let go of the file."""
        self._closed.set()
        if self._follower.is_alive():
            self._follower.join()
        self._archive.close()

    def _follow(self) -> None:
        archive, was_live = self._archive, self._archive.is_live
        began = monotonic()

        def rest_s() -> float:
            return _FIRST_REST_S if monotonic() - began < _FIRST_S else _REST_S

        while archive.is_live or archive.is_behind:
            if self._closed.wait(rest_s() if archive.is_behind else FOLLOW_S):
                break
            try:
                archive.read_on(_SLICE_S)
            except OSError as error:
                self._add(f"the capture cannot be followed: {error.strerror}")
                return
            archive.index.catch_up(_SLICE_S)
        while archive.index.paired < archive.count and not self._closed.wait(rest_s()):
            archive.index.catch_up(_SLICE_S)
        if not (archive.is_live or archive.is_behind):
            self._tell()
            if was_live:
                self._add("what wrote the capture has ended")

    def _tell(self) -> None:
        for text in problems(self._archive):
            if text not in self._told:
                self._told.add(text)
                self._add(text)

    def _add(self, text: str, severity: Severity = Severity.WARNING) -> None:
        self._notices.append(Notice(len(self._notices), text, severity, "traffic"))


def _line(number: int, log: CallLog, connections: Mapping[int, ConnectionInfo]) -> LogLine:
    info = connections.get(log.connection)
    server = info.server if info is not None else ""
    return LogLine(number, log.time, log.level, log.source, log.text, log.where, server, call=log.call)


def problems(archive: Archive) -> Iterator[str]:
    """What a capture lacks, a sentence each."""
    if lines := archive.unreadable:
        said = "1 line" if lines == 1 else f"{lines:,} lines"
        yield f"{said} of the capture cannot be read: cut off or damaged"
    if missing := gaps_in_words(archive.index):
        yield missing
    if archive.is_cut:
        yield f"only the first {MOST_FRAMES:,} frames of the capture are shown"
