"""Runs the screen, and restarts it after an exception while the core continues."""

from __future__ import annotations

import io
import logging
import os
import select
import termios
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.crash import Crash, ScreenPosition

MAX_CRASHES = 3
"""Number of crashes within `CRASH_WINDOW_S` after which the screen stays closed until a person opens it."""
CRASH_WINDOW_S = 10.0
LEAVE_SCREEN = (
    "\x1b[<u"  # keyboard protocol
    "\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # paste, focus, size reports
    "\x1b[?7h\x1b[?1049l\x1b[?25h"  # line wrap, the other screen, the cursor
)
"""Control sequences that undo all changes of a screen to the terminal."""
_log = logging.getLogger(__name__)


class Terminal:
    """Terminal at descriptor `fd`, with its original settings."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        try:
            self._settings: list[Any] | None = termios.tcgetattr(fd)
        except termios.error:
            self._settings = None

    def ignore_ctrl_s(self) -> None:
        """Disable flow control (Ctrl+S stops output) until the settings are restored.

        A screen disables flow control, but enables it again when the screen is suspended for an editor.
        Ctrl+S at this moment would block the last output of the screen forever.
        """
        if self._settings is not None:
            input_flags, *other_settings = self._settings
            self._set([input_flags & ~termios.IXON, *other_settings])

    def restore_settings(self) -> None:
        """Restore the original settings."""
        if self._settings is not None:
            self._set(self._settings)

    def _set(self, settings: list[Any]) -> None:
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(self._fd, termios.TCSANOW, settings)

    def write(self, text: str) -> None:
        """Write plain text, ignoring errors of a closed terminal."""
        with suppress(OSError):
            os.write(self._fd, text.encode())

    def restore(self) -> None:
        """Restore the settings and leave the screen, ignoring errors of a closed terminal."""
        if self._settings is None:
            return
        self.write(LEAVE_SCREEN)
        self.restore_settings()


class MakeApp(Protocol):
    """Makes the app of the next screen."""

    def __call__(self, *, begin: Callable[[], None], position: ScreenPosition | None, news: str) -> DeskApp:
        """`position` comes from the previous screen. `news` is a message about the end of that screen. The
        app calls `begin` once the new screen is painted.
        """


class ScreenRuns:
    """Sequence of screens, until a person leaves or `stop` is called."""

    def __init__(
        self,
        make: MakeApp,
        state: Path,
        terminal: Terminal,
        *,
        keys_fd: int = -1,
        begin: Callable[[], None] = lambda: None,
        describe_core: Callable[[], str] = lambda: "",
    ) -> None:
        """Crash reports are written to the state folder `state`.

        `begin` is called once, when the first screen is painted or has failed. `keys_fd` is the descriptor
        for the person's input after too many crashes. If it is negative, the run ends after too many crashes.
        `describe_core` returns a sentence about the core, which continues.
        """
        self._make = make
        self._state = state
        self._terminal = terminal
        self._keys_fd = keys_fd
        self._begin: Callable[[], None] | None = begin
        self._describe_core = describe_core
        self._leave: Callable[[], object] = lambda: None
        self._is_stopping = False
        self._wake_read_fd, self._wake_write_fd = os.pipe()

    def stop(self, reason: str = "") -> None:
        """End the run. May be called from any thread and by a signal handler."""
        self._is_stopping = True
        with suppress(OSError):
            os.write(self._wake_write_fd, b"\0")
        with suppress(RuntimeError):  # the event loop of the screen has just ended
            self._leave()

    def run(self) -> int:
        """Run screens until the end. Return the exit code."""
        try:
            return self._run()
        finally:
            for fd in (self._wake_read_fd, self._wake_write_fd):
                os.close(fd)

    def _run(self) -> int:
        from mcpdesk.tui.crash import FOLDER, ScreenPosition

        position: ScreenPosition | None = None
        news = ""
        crash_times = list[float]()
        while True:
            crash = self._show(position, news)
            if crash is None:
                return 0
            path = crash.write(self._state / FOLDER)
            path_text = f" · {path}" if path else ""
            # The reason is at the end, because a long line in the log or on the screen is cut in the middle.
            _log.error("The screen failed and was closed%s · %s", path_text, crash.summary)
            if self._is_stopping:
                return 1
            self._begin_once()
            news = f"The screen failed and was started again{path_text} · {crash.summary}"
            now = monotonic()
            crash_times = [*(each for each in crash_times if now - each <= CRASH_WINDOW_S), now]
            # The open view may be the cause of the crash, so it is not restored after the second crash.
            position = (
                crash.position if len(crash_times) == 1 else ScreenPosition(opened=crash.position.opened)
            )
            if len(crash_times) >= MAX_CRASHES:
                crash_times = []
                if not self._waits_for_reopen(crash, path_text):
                    return 1

    def _show(self, position: ScreenPosition | None, news: str) -> Crash | None:
        """Run one screen. Return the crash that ended it, or None if the person left."""
        from mcpdesk.tui.crash import Crash, ScreenPosition

        app: DeskApp | None = None
        try:
            app = self._make(begin=lambda: self._screen_painted(app), position=position, news=news)
            app.error_console.file = io.StringIO()  # Textual's report shows the values of local variables
            self._terminal.ignore_ctrl_s()
            app.run()
        except Exception as error:
            self._terminal.restore()
            return (app and app.crash) or Crash.of(error, position or ScreenPosition())
        finally:
            self._leave = lambda: None
            self._terminal.restore_settings()
        return app.crash

    def _screen_painted(self, app: DeskApp | None) -> None:
        """Start the core after the first paint. Close the screen at once if `stop` was called before."""
        import asyncio

        if app is not None:
            self._leave = partial(asyncio.get_running_loop().call_soon_threadsafe, app.exit)
            if self._is_stopping:
                app.exit()
        self._begin_once()

    def _begin_once(self) -> None:
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()

    def _waits_for_reopen(self, crash: Crash, path_text: str) -> bool:
        """Report the crashes in plain text, and wait for Enter. Return False if the run must end."""
        lines = [
            f"The screen failed {MAX_CRASHES} times within {CRASH_WINDOW_S:.0f} seconds and stays closed.",
            f"{crash.summary}{path_text}",
        ]
        can_ask = self._keys_fd >= 0
        if can_ask:
            lines += [self._describe_core(), "Press Enter to open the screen again, Ctrl+C to end mcpdesk."]
        self._terminal.write("\n".join(line for line in lines if line) + "\n")
        if not can_ask:
            return False
        with suppress(termios.error):
            termios.tcflush(self._keys_fd, termios.TCIFLUSH)  # earlier input was meant for the screen
        readable, _, _ = select.select([self._keys_fd, self._wake_read_fd], [], [])
        return self._wake_read_fd not in readable and bool(os.read(self._keys_fd, 4096))
