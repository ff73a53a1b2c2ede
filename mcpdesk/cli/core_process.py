"""What every command that hosts a core in its process does around it.

Hosted code may print and log. `claiming` makes lines of the journal of that, and keeps it off the wire and
the terminal; `JournalPrinter` writes the journal to stderr; `give_dashboard` lets a browser see the core.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from mcpdesk.hosting.environment import make_private
from mcpdesk.hosting.journal import logging_to
from mcpdesk.transports.descriptors import claim

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.journal import LogLine
    from mcpdesk.link.link_board import LinkBoard
    from mcpdesk.transports.descriptors import Claimed, Mode, StrayLine

MOST_LINES = 1_000
"""Lines that wait to be read; when there are more the oldest are left out."""
PATIENCE_S = 1.0
"""How long the end waits for its reader."""


@contextmanager
def claiming(host: Host, mode: Mode) -> Iterator[Claimed]:
    """Claim the descriptors and the logging for a host while the block runs. Closes the process to others."""
    folders = host.plan.folders

    def keep(line: StrayLine) -> None:
        host.journal.log("warning" if line.source == "stderr" else "info", line.source, line.text, line.where)

    make_private()  # before hosted code can start a program
    with logging_to(host.journal, lambda: folders):
        claimed = claim(mode, keep, lambda: [str(folder) for folder in folders])
        try:
            yield claimed
        finally:
            claimed.release()


def give_dashboard(host: Host) -> None:
    """Let a browser see the core at `/`."""

    def make() -> LinkBoard:
        from mcpdesk.link.link_board import LinkBoard
        from mcpdesk.link.local import LocalLink

        # Nobody looks yet: every open page counts by itself.
        link = LocalLink(host, present=0)
        return LinkBoard(link, link.attend)

    host.board = make


class JournalPrinter:
    """Writes a journal's lines to stderr as they come, until the end of the block."""

    def __init__(self, host: Host) -> None:
        self._journal = host.journal
        self._last = -1
        self._following = threading.Lock()
        host.on_stuck = self.follow
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._said = self._written = 0
        self._more = threading.Event()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> JournalPrinter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.follow()
        self._is_over = True
        self._more.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def follow(self) -> None:
        """Write what came since the last look."""
        with self._following:  # a thread follows when the loop is stuck
            for line in self._journal.lines(self._last):
                self._last = line.number
                self.say(_told(line), line.time)

    def say(self, text: str, when: float | None = None) -> None:
        """Write one line with its time."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
        self._lines.append(f"{stamp} {text}")
        self._said += 1
        self._more.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="stderr", daemon=True)
            self._thread.start()

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # its reader has gone
            while not self._is_over or self._lines:
                self._more.wait()
                self._more.clear()
                while self._lines:
                    self._write_one(self._lines.popleft())

    def _write_one(self, line: str) -> None:
        left_out = max(0, self._said - len(self._lines) - self._written - 1)
        note = f"[{left_out} lines left out: nobody read them in time]\n" if left_out else ""
        self._written += left_out + 1
        sys.stderr.write(f"{note}{_harmless(line)}\n")
        sys.stderr.flush()


def _harmless(text: str) -> str:
    """What clients and hosted code say commands no terminal, and no line of theirs looks like one of ours."""
    if text.isprintable():
        return text
    from mcpdesk.plain_text import clean

    return clean(text).replace("\n", "\n    ")


def _told(line: LogLine) -> str:
    where = f" ({line.where})" if line.where else ""
    return f"{line.level} {line.source}: {line.text}{where}"
