"""Link to a capture file: its traffic can be shown, but no server is hosted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine, Notice, Protection, Severity
from mcpdesk.recorder.archive import MAX_FRAMES, Archive
from mcpdesk.recorder.index.traffic_index import gaps_in_words
from mcpdesk.recorder.record import CallLog, ConnectionInfo

FOLLOW_S = 0.2
"""Seconds between two reads of a capture that another process still writes."""
FIRST_READ_S = 0.05
"""Seconds for which the capture is read before it is shown. A thread reads the rest later."""
_SLICE_S = 0.02
"""Seconds of one slice of reading."""
_SLOW_READ_S = 1.5
"""Seconds after the first view in which reading pauses for longer, so that the screen can be drawn."""
_FIRST_PAUSE_S = 0.04
"""Seconds of the pause between two slices of reading during the first `_SLOW_READ_S` seconds."""
_SLICE_PAUSE_S = 0.002
"""Seconds of the later pauses. The screen can be drawn during a pause."""


class CaptureLink(Link):
    """Link to an archive. It gives access to the traffic, and has notices about parts that cannot be read.

    A thread reads the archive and pairs requests with responses. If another process still writes the capture,
    the thread reads new frames until that process ends.
    """

    def __init__(self, archive: Archive, message: str = "") -> None:
        """Create a link.

        `message` is the text of the first notice. If it is empty, no such notice is shown.
        """
        self.path: Path = archive.path
        self.traffic = archive.index
        self._archive = archive
        self._notices: list[Notice] = []
        if message:
            self._add(message, Severity.INFO)
        self._reported = set[str]()
        """Texts of the problems that were reported."""
        self._has_started = False
        self._closed = Event()
        self._thread = Thread(target=self._follow, name="follow", daemon=True)
        if not archive.is_behind:
            self._report()

    def view(self) -> CoreView:
        """Return a view with the path of the capture. The first call starts the reading thread."""
        if not self._has_started:
            # Starting the thread earlier would delay the first drawing of the screen.
            self._has_started = True
            if self._archive.is_live or self._archive.is_behind:
                self._thread.start()
        return CoreView(
            (),
            (),
            Protection.OFFLINE,
            capture_path=str(self.path),
            capture_grows=self._archive.is_live,
        )

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices about parts of the capture that cannot be read."""
        return [notice for notice in self._notices if notice.number > after]

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return the log lines of calls that the capture contains."""
        first_number = max(0, after + 1)
        connections = self._archive.connections
        call_logs = self._archive.call_logs[first_number:]
        return [_log_line(number, log, connections) for number, log in enumerate(call_logs, first_number)]

    def close(self) -> None:
        """Stop reading and close the file."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._archive.close()

    def _follow(self) -> None:
        """Read and pair the rest of the capture, until its process ends or the link is closed."""
        archive = self._archive
        was_live = archive.is_live
        start_time = monotonic()

        def pause_s() -> float:
            return _FIRST_PAUSE_S if monotonic() - start_time < _SLOW_READ_S else _SLICE_PAUSE_S

        while archive.is_live or archive.is_behind:
            if self._closed.wait(pause_s() if archive.is_behind else FOLLOW_S):
                break
            try:
                archive.read_new_data(_SLICE_S)
            except OSError as error:
                self._add(f"the capture cannot be followed: {error.strerror}")
                return
            archive.index.catch_up(_SLICE_S)
        while archive.index.paired < archive.count and not self._closed.wait(pause_s()):
            archive.index.catch_up(_SLICE_S)
        if not (archive.is_live or archive.is_behind):
            self._report()
            if was_live:
                self._add("the process that wrote the capture has ended")

    def _report(self) -> None:
        """Add a notice for each problem of the capture that was not reported yet."""
        for text in problems(self._archive):
            if text not in self._reported:
                self._reported.add(text)
                self._add(text)

    def _add(self, text: str, severity: Severity = Severity.WARNING) -> None:
        self._notices.append(Notice(len(self._notices), text, severity, "traffic"))


def _log_line(number: int, log: CallLog, connections: Mapping[int, ConnectionInfo]) -> LogLine:
    """Convert a recorded log line of a call to a line of the log."""
    info = connections.get(log.connection)
    server = info.server if info is not None else ""
    return LogLine(number, log.time, log.level, log.source, log.text, log.where, server, call=log.call)


def problems(archive: Archive) -> Iterator[str]:
    """Yield the defects of a capture, one sentence each."""
    if lines := archive.unreadable:
        count = "1 line" if lines == 1 else f"{lines:,} lines"
        yield f"{count} of the capture cannot be read: cut off or damaged"
    if missing := gaps_in_words(archive.index):
        yield missing
    if archive.is_cut:
        yield f"only the first {MAX_FRAMES:,} frames of the capture are shown"
