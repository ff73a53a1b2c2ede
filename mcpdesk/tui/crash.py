"""Exceptions that end the screen: a report in a file, and the position at which a new screen opens."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from mcpdesk import private_files
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.version import __version__

FOLDER = "crashes"
"""Folder of the reports inside the state folder."""
MAX_REPORTS = 20
"""Maximum number of reports. The oldest reports are deleted."""


class ScreenPosition(Struct, frozen=True):
    """Position of the person on the screen. A restarted screen opens at this position."""

    server: str = ""
    screen: str = ""
    """Name of a pane. Empty for the first pane."""
    panes: Mapping[str, object] = field(default_factory=dict)
    """Saved state of each visited pane, by name of its screen. A pane restores its position from this
    state."""
    opened: frozenset[int] = frozenset()
    """Questions that were already opened. They do not open automatically again."""


class Crash(Struct, frozen=True):
    """Exception that ended a screen."""

    summary: str
    """Type and message of the exception, as one line."""
    report: str
    """Traceback without values of variables, because these may be secret."""
    position: ScreenPosition = ScreenPosition()

    @classmethod
    def of(cls, error: BaseException, position: ScreenPosition) -> Crash:
        """Create a crash from an exception."""
        lines = traceback.TracebackException.from_exception(error, capture_locals=False).format()
        return cls(one_line(f"{type(error).__name__}: {error}", 200), clean("".join(lines)), position)

    def write(self, folder: Path) -> Path | None:
        """Write the report to a new file in `folder`. Return its path, or None if this fails."""
        import platform
        from datetime import datetime
        from importlib.metadata import version

        now = datetime.now().astimezone()
        report_header = (
            f"mcpdesk {__version__}, Textual {version('textual')}, Python {platform.python_version()}\n"
            f"{now.isoformat(timespec='seconds')}, screen: {self.position.screen or 'none'}\n\n"
        )
        path = folder / f"{now:%Y%m%d-%H%M%S-%f}.txt"
        try:
            private_files.write(path, clean(report_header + self.report).encode("utf-8", "replace"))
            for old_report in sorted(folder.glob("*.txt"))[:-MAX_REPORTS]:
                with suppress(OSError):
                    old_report.unlink()
        except OSError:
            return None
        return path
