"""The terminal as it was before a screen was drawn on it, for when the screen cannot put it back itself."""

from __future__ import annotations

import os
import termios
from contextlib import suppress

LEAVE = (
    "\x1b[<u"  # keyboard protocol
    "\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # paste, focus, size reports
    "\x1b[?7h\x1b[?1049l\x1b[?25h"  # line wrap, the other screen, the cursor
)


class Terminal:
    """Remembers the settings of the terminal at `fd`, if there is one."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        try:
            self._settings: list[object] | None = termios.tcgetattr(fd)
        except termios.error:
            self._settings = None

    def write(self, text: str) -> None:
        """Write plain text. A terminal that is gone is none of our business."""
        with suppress(OSError):
            os.write(self._fd, text.encode())

    def restore(self) -> None:
        """Put the settings back and leave the screen. A terminal that is gone is none of our business."""
        if self._settings is None:
            return
        try:
            os.write(self._fd, LEAVE.encode())
            termios.tcsetattr(self._fd, termios.TCSANOW, self._settings)  # type: ignore[arg-type]
        except (OSError, termios.error):
            return
