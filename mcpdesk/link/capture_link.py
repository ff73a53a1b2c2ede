"""A front end's view of a capture on disk: its traffic, and a core that hosts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, Notice, Protection, Severity
from mcpdesk.recorder.archive import MOST_FRAMES, Archive
from mcpdesk.recorder.index.traffic_index import gaps_in_words


class CaptureLink(Link):
    """Implements `Link` over an archive: the traffic, and notices of what could not be read."""

    def __init__(self, archive: Archive) -> None:
        self.path: Path = archive.path
        self.traffic = archive.index
        self._view = CoreView((), (), Protection.OFFLINE, capture_path=str(archive.path))
        problems = enumerate(_problems(archive))
        self._notices = [Notice(number, text, Severity.WARNING, "traffic") for number, text in problems]

    def view(self) -> CoreView:
        """The path of the capture, and nothing else."""
        return self._view

    def notices(self, after: int = -1) -> list[Notice]:
        """What could not be read of the file."""
        return [notice for notice in self._notices if notice.number > after]


def _problems(archive: Archive) -> Iterator[str]:
    """What a capture lacks, a sentence each."""
    if lines := archive.unreadable:
        said = "1 line" if lines == 1 else f"{lines:,} lines"
        yield f"{said} of the capture cannot be read: cut off or damaged"
    if missing := gaps_in_words(archive.index):
        yield missing
    if archive.is_cut:
        yield f"only the first {MOST_FRAMES:,} frames of the capture are shown"
