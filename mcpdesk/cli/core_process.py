"""What a command that runs for long does around its work.

`claiming` keeps what hosted code prints and logs off the wire and the terminal: it becomes lines of the
journal. `JournalPrinter` writes the journal to stderr, `give_dashboard` lets a browser see the core, and
`StopRequests` asks the command to end when a signal comes, the terminal is closed, or its parent ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.journal import LogLine
    from mcpdesk.link.link_board import LinkBoard
    from mcpdesk.transports.descriptors import ClaimedDescriptors, Mode, StrayLine

MOST_LINES = 1_000
"""Lines that wait to be written; when there are more the oldest are dropped, and a note says how many."""
PATIENCE_S = 1.0
"""Seconds to wait, at the end, for stderr to be read."""
SIGNALS = {
    "SIGTERM": "asked to end (SIGTERM)",
    "SIGINT": "interrupted",
    "SIGHUP": "the terminal was closed",
}
"""Name of a signal that asks a command to end -> why it was asked."""
CLIENT_LEFT = "the client has left"
PARENT_DIED = "the program that started it has ended"
POLL_S = 1.0
"""Seconds between two looks at the parent process where the system cannot report its end."""
IS_UNIX = hasattr(os, "fork")
"""Whether this is Linux or macOS, and not Windows."""


def require_unix(what: str) -> None:
    """Raises: DeskUserError on Windows, where `what` cannot be done."""
    if not IS_UNIX:
        raise DeskUserError(
            f"{what} does not work on Windows, which lacks the pipes, signals and process groups it needs.",
            "`mcpdesk check FOLDER` works, and `call`, `list`, `read` and `prompt` with a server's URL.",
        )


@contextmanager
def claiming(host: Host, mode: Mode) -> Iterator[ClaimedDescriptors]:
    """Claim the descriptors and the logging for a host while the block runs. Closes the process to others."""
    folders = host.plan.folders

    def keep(line: StrayLine) -> None:
        host.journal.log("warning" if line.source == "stderr" else "info", line.source, line.text, line.where)

    from mcpdesk.hosting.environment import make_private
    from mcpdesk.hosting.journal import logging_to
    from mcpdesk.transports.descriptors import claim

    make_private()  # before hosted code can start a program
    with logging_to(host.journal, lambda: folders):
        claimed = claim(mode, keep, lambda: [str(folder) for folder in folders])
        try:
            yield claimed
        finally:
            claimed.release()


@contextmanager
def loading(host: Host) -> Iterator[None]:
    """What a command that only looks at folders does around loading them: `claiming`, where that is possible.

    On Windows what hosted code prints goes to stderr.
    """
    if IS_UNIX:
        with claiming(host, "wire"):
            yield
        return
    from mcpdesk.hosting.journal import logging_to

    with logging_to(host.journal, lambda: host.plan.folders), contextlib.redirect_stdout(sys.stderr):
        yield


def give_dashboard(host: Host) -> None:
    """Serve the dashboard of this core at `/`; its link is made when the first page is opened."""

    def make() -> LinkBoard:
        from mcpdesk.link.link_board import LinkBoard
        from mcpdesk.link.local import LocalLink

        # No page is open yet; each page that opens is counted.
        link = LocalLink(host, present=0)
        return LinkBoard(link, link.attend)

    host.board = make


class JournalPrinter:
    """Writes the lines of a journal to stderr as they are added, until the block ends.

    A thread of its own writes: a reader that does not read stderr holds up nothing else.
    """

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
        """Write the lines that were added since the last call."""
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
    """The text with control characters made visible and its further lines indented, unlike lines of ours."""
    if text.isprintable():
        return text
    from mcpdesk.plain_text import clean

    return clean(text).replace("\n", "\n    ")


def _told(line: LogLine) -> str:
    where = f" ({line.where})" if line.where else ""
    return f"{line.level} {line.source}: {line.text}{where}"


class StopRequests:
    """A context in which the command is asked to end by `stop(reason)`.

    A signal, a lost terminal or client, or the end of the parent process asks. If the command does not end
    within its grace, or a person asks again, the process ends at once; programs it had started are ended by
    their own guard.

    `stop` is called on the main thread between two steps of it, or on a thread of our own: it must only pass
    the request on (`loop.call_soon_threadsafe`). `last` is called before the process is ended by force.
    `with_parent`: end, too, when the parent process does. `client_fd`: and when nobody holds its other end.
    """

    def __init__(
        self,
        stop: Callable[[str], None],
        *,
        grace_s: float,
        last: Callable[[], None] = lambda: None,
        with_parent: bool = False,
        client_fd: int | None = None,
    ) -> None:
        self.reason = ""
        """Why it was asked to stop; empty as long as it was not."""
        self._stop = stop
        self._last = last
        self._grace_s = grace_s
        self._with_parent = with_parent
        self._client_fd = client_fd
        self._parent = os.getppid()
        self._over = threading.Event()
        self._waker, self._wake = os.pipe()
        self._before: dict[signal.Signals, Any] = {}
        self._watcher = threading.Thread(target=self._watch, name="end-watch", daemon=True)
        self._is_watching = with_parent or client_fd is not None

    def __enter__(self) -> StopRequests:
        for name in SIGNALS:
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` said to stay
                self._before[number] = signal.signal(number, self._signalled)
        if self._is_watching:
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        os.close(self._wake)
        if self._is_watching:
            self._watcher.join()
        os.close(self._waker)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.reason and number == signal.SIGINT:
            self._end_now(number)
        self._ask(SIGNALS[signal.Signals(number).name], number)

    def _ask(self, reason: str, number: int) -> None:
        if self.reason:
            return
        self.reason = reason
        threading.Thread(target=self._insist, args=(number,), name="grace", daemon=True).start()
        self._stop(reason)

    def _insist(self, number: int) -> None:
        """The command's grace: end by force what does not end."""
        if not self._over.wait(self._grace_s):
            self._end_now(number)

    def _end_now(self, number: int) -> None:
        try:
            self._last()
        finally:
            os._exit(128 + number)

    def _watch(self) -> None:
        with _handle(self._parent) as handle:
            poll = select.poll()
            poll.register(self._waker, select.POLLIN)
            if self._client_fd is not None:
                poll.register(self._client_fd, 0)  # tells of a hang-up only
            if self._with_parent and handle is not None:
                poll.register(handle, select.POLLIN)
            pause_ms = POLL_S * 1000 if self._with_parent and handle is None else None
            while not (reason := self._seen(poll.poll(0))):
                poll.poll(pause_ms)
        if not self._over.is_set():
            self._ask(reason, signal.SIGHUP)

    def _seen(self, events: list[tuple[int, int]]) -> str:
        """Why the command has to end, if it has to."""
        if self._over.is_set():
            return "over"
        if self._with_parent and os.getppid() != self._parent:
            return PARENT_DIED
        return CLIENT_LEFT if any(fd == self._client_fd for fd, _ in events) else ""


@contextmanager
def _handle(process: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None where there is no such thing."""
    try:
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
