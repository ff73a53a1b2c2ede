"""An exception that ended the screen: its report in a file, and what the person was looking at."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcpdesk import private_files
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.version import __version__

FOLDER = "crashes"
"""The folder of the reports inside the state folder."""
REPORTS_KEPT = 20
"""Newer reports replace the oldest."""


@dataclass(frozen=True)
class ScreenPlace:
    """What a person was looking at: a screen that is started again opens there."""

    server: str = ""
    screen: str = ""
    """Name of a pane; empty: the first."""
    panes: Mapping[str, object] = field(default_factory=dict)
    """What each visited pane needs to come back to where it was, by the name of its screen."""
    opened: frozenset[int] = frozenset()
    """Questions that were opened: they do not open by themselves again."""


@dataclass(frozen=True)
class Crash:
    """An exception that ended a screen."""

    summary: str
    """One line: the exception's type and message."""
    report: str
    """The traceback without the values of local variables, which may be secret."""
    place: ScreenPlace = ScreenPlace()

    @classmethod
    def of(cls, error: BaseException, place: ScreenPlace) -> Crash:
        """Describe an exception."""
        lines = traceback.TracebackException.from_exception(error, capture_locals=False).format()
        return cls(one_line(f"{type(error).__name__}: {error}", 200), clean("".join(lines)), place)

    def write(self, folder: Path) -> Path | None:
        """Write the report to a new file in `folder` and return its path; None when that is not possible."""
        import platform
        from datetime import datetime
        from importlib.metadata import version

        now = datetime.now().astimezone()
        about = (
            f"mcpdesk {__version__}, Textual {version('textual')}, Python {platform.python_version()}\n"
            f"{now.isoformat(timespec='seconds')}, screen: {self.place.screen or 'none'}\n\n"
        )
        path = folder / f"{now:%Y%m%d-%H%M%S-%f}.txt"
        try:
            private_files.write(path, clean(about + self.report).encode("utf-8", "replace"))
            for old in sorted(folder.glob("*.txt"))[:-REPORTS_KEPT]:
                with suppress(OSError):
                    old.unlink()
        except OSError:
            return None
        return path
