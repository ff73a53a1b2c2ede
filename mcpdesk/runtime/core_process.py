"""Environment of a long-running command: output, journal, link and termination.

`capture_output` keeps the output and logs of hosted code off the wire and the terminal, and writes them to
the journal. `JournalPrinter` prints the journal on stderr. `offer_link` lets features open a link to the
core. `StopRequests` asks the command to end on a signal, when the terminal is closed, or when the parent
process ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, Full, Queue
from types import FrameType
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.journal import LogLine
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.transports.descriptors import ClaimedDescriptors, Mode, StrayLine

MAX_LINES = 1_000
"""Maximum number of queued lines. If there are more, the oldest lines are dropped, and a note states their
number.
"""
JOIN_TIMEOUT_S = 1.0
"""Seconds to wait at exit until stderr has been written."""
READ_PERIOD_S = 0.2
"""Minimum seconds between two reads of the journal."""
SIGNALS = {
    "SIGTERM": "asked to end (SIGTERM)",
    "SIGINT": "interrupted",
    "SIGHUP": "the terminal was closed",
    "SIGBREAK": "interrupted (Ctrl+Break)",
}
"""Reasons for termination, by name of the signal."""
CLIENT_LEFT = "the client has left"
PARENT_DIED = "the program that started it has ended"
PARENT_POLL_MS = 1000
"""Milliseconds between two checks of the parent process, if its end cannot be awaited."""
_TRACEBACK = re.compile(r"^(?:Traceback \(most recent|  File \")", re.MULTILINE)
"""Start of a traceback in a text. The traceback may be complete or shortened to lines of the author's code.
"""
IS_UNIX = hasattr(os, "fork")
"""True on Linux and macOS, False on Windows."""


def require_unix(subject: str, requirement: str) -> None:
    """Raise DeskUserError on Windows. `requirement` names the system feature that `subject` requires."""
    if not IS_UNIX:
        raise DeskUserError(
            f"{subject} does not work on Windows, which lacks {requirement}.",
            "Run it in WSL. `mcpdesk check`, `test`, `call`, `list` and `serve` work on Windows.",
        )


@contextmanager
def capture_output(host: Host, mode: Mode) -> Iterator[ClaimedDescriptors]:
    """Redirect descriptors 0 to 2 and logging of hosted code to the journal while the block runs.

    From then on, other processes of this user cannot inspect this process, even after the block.
    """
    from mcpdesk.hosting.environment import make_private
    from mcpdesk.hosting.journal import logging_to
    from mcpdesk.server.calls.running_call import RUNNING_CALL
    from mcpdesk.transports.descriptors import claim

    folders = host.plan.folders

    def log_line(line: StrayLine) -> None:
        level = "warning" if line.source == "stderr" else "info"
        host.journal.log(level, line.source, line.text, line.where, call=RUNNING_CALL.get())

    make_private()  # called before hosted code can start a program
    with logging_to(host.journal, lambda: folders, RUNNING_CALL.get):
        descriptors = claim(mode, log_line, lambda: [str(folder) for folder in folders])
        try:
            yield descriptors
        finally:
            descriptors.release()


@contextmanager
def loaded_host(folder: Path, http: bool = False) -> Iterator[Host]:
    """Load a folder as a server would, for a command that only inspects it.

    `http` simulates an HTTP listener. Output of the folder's code is written to the host's journal.
    """
    from mcpdesk.connect.in_process import lone_host

    host = lone_host(folder, http=http)
    with capture_output(host, "wire"):
        host.load()
        yield host


def offer_link(host: Host) -> None:
    """Let front ends of features, such as the dashboard, open a link to this core."""

    def open_all() -> FrontEnd:
        from mcpdesk.transports.rendezvous import attach_point

        if host.shared is not None:
            return host.shared.front_end(partial(attach_point, host.chosen_state))
        return open_own("desk")

    def open_own(peer: str) -> FrontEnd:
        from mcpdesk.link.front_end import FrontEnd
        from mcpdesk.link.local.local_link import LocalLink

        # No page is open yet. Each page is counted when it opens.
        link = LocalLink(host, viewers=0, peer=peer)
        return FrontEnd(link, link.attend)

    host.front_end, host.own_front_end = open_all, open_own


class JournalPrinter:
    """Prints the lines of a journal on stderr as they are added, until the block ends.

    A separate thread writes to stderr, so that a slow reader of stderr does not delay the core.
    """

    def __init__(self, host: Host) -> None:
        self._journal = host.journal
        self._in_json = host.settings.log_format == "json"
        self._last_number = -1
        """Number of the last journal line that was printed."""
        self._print_lock = threading.Lock()
        host.blocking_code.on_stuck = self.follow
        self._lines: Queue[str | None] = Queue(MAX_LINES)
        """Queued lines. None ends the thread."""
        self._dropped_count = 0
        self._thread: threading.Thread | None = None

    def __enter__(self) -> JournalPrinter:
        return self

    def __exit__(self, *problem: object) -> None:
        self.follow()
        if self._thread is not None:
            self._enqueue(None)
            self._thread.join(JOIN_TIMEOUT_S)

    async def keep_following(self) -> None:
        """Print lines as they are added, until cancelled."""
        from mcpdesk.hosting.log_limits import INTERVAL_S

        loop = asyncio.get_running_loop()
        has_new_lines = asyncio.Event()
        is_wake_scheduled = False

        def on_change() -> None:  # called on any thread
            nonlocal is_wake_scheduled
            if not is_wake_scheduled and self._journal.lines(self._last_number):
                is_wake_scheduled = True
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(has_new_lines.set)

        remove_listener = self._journal.changes.listen(on_change)
        try:
            while True:
                has_new_lines.clear()
                is_wake_scheduled = False
                self.follow()
                on_change()  # a line may have been added before the listener could report it
                with suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL_S if self._journal.is_counting else None):
                        await has_new_lines.wait()
                await asyncio.sleep(READ_PERIOD_S)
        finally:
            remove_listener()

    def follow(self) -> None:
        """Print the lines that were added since the last call."""
        with self._print_lock:  # another thread calls this if the loop is stuck
            for line in self._journal.lines(self._last_number):
                self._last_number = line.number
                if self._in_json:
                    self._print_line(json_line(line))
                    continue
                location = f" ({line.where})" if line.where else ""
                self.print(f"{line.level} {line.source}: {line.text}{location}", line.time)

    def print(self, text: str, when: float | None = None) -> None:
        """Print one line with its time. `when` is Unix time in seconds, or None for the current time."""
        self._print_line(self._line(text, when))

    def _line(self, text: str, when: float | None = None) -> str:
        if self._in_json:
            from mcpdesk.hosting.journal import LogLine

            return json_line(LogLine(0, when or time.time(), "info", "mcpdesk", text))
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
        return _with_visible_controls(f"{stamp} {text}")

    def _print_line(self, line: str) -> None:
        """Queue a formatted line, and start the thread that writes it."""
        self._enqueue(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="stderr", daemon=True)
            self._thread.start()

    def _enqueue(self, line: str | None) -> None:
        """Queue a line. If the queue is full, drop the oldest lines."""
        while True:
            try:
                return self._lines.put_nowait(line)
            except Full:
                with suppress(Empty):
                    self._lines.get_nowait()
                    self._dropped_count += 1

    def _write(self) -> None:
        with suppress(OSError, ValueError):  # the reader has closed stderr
            while (line := self._lines.get()) is not None:
                dropped_count, self._dropped_count = self._dropped_count, 0
                if dropped_count:
                    note = f"[{dropped_count} lines left out: stderr was not read in time]"
                    sys.stderr.write(f"{self._line(note) if self._in_json else note}\n")
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()


def json_line(line: LogLine) -> str:
    """Format a line of the journal as one ASCII JSON object without empty members."""
    import json
    from datetime import UTC, datetime

    message, traceback = line.text, ""
    if match := _TRACEBACK.search(message):
        message, traceback = message[: match.start()], message[match.start() :]
        message = message or traceback.rstrip().rpartition("\n")[2]
    members = {
        "time": datetime.fromtimestamp(line.time, UTC).isoformat(timespec="milliseconds"),
        "level": line.level,
        "logger": line.source,
        "message": message.rstrip("\n"),
        "server": line.server,
        "tool": line.tool,
        "connection": line.call and line.call[0],
        "request": line.call and line.call[1],
        "trace": line.trace,
        "where": line.where,
        "traceback": traceback,
    }
    return json.dumps({name: value for name, value in members.items() if value not in ("", None)})


def _with_visible_controls(text: str) -> str:
    """Make control characters visible, and indent continuation lines, so that they cannot be mistaken for new
    entries.
    """
    if text.isprintable():
        return text
    from mcpdesk.plain_text import clean

    return clean(text).replace("\n", "\n    ")


class StopRequests:
    """Context manager during which external events ask the command to end, through `stop(reason)`.

    The events are a signal, the loss of the terminal or client, and the end of the parent process. If the
    command does not end within `grace_s`, or a person interrupts it again, the process exits at once. A
    separate guard process then ends the programs that this process started.

    `stop` is called on the main thread between two bytecodes, or on another thread, so it may only schedule
    work (`loop.call_soon_threadsafe`). `before_exit` is called before a forced exit. `with_parent` also
    reacts to the end of the parent process. `client_fd` is a descriptor whose hang-up means that the client
    has left.
    """

    def __init__(
        self,
        stop: Callable[[str], None],
        *,
        grace_s: float,
        before_exit: Callable[[], None] = lambda: None,
        with_parent: bool = False,
        client_fd: int | None = None,
    ) -> None:
        self.reason = ""
        """Reason for the request to stop, or "" before a request."""
        self._stop = stop
        self._before_exit = before_exit
        self._grace_s = grace_s
        self._parent_pid = os.getppid() if with_parent else None
        self._client_fd = client_fd
        self._has_ended = threading.Event()
        # The watcher thread polls the first descriptor. Closing the second one wakes the thread.
        self._watched_fd, self._wake_fd = os.pipe()
        self._earlier_handlers: dict[signal.Signals, Any] = {}
        self._watcher = threading.Thread(target=self._watch, name="end-watch", daemon=True)

    def __enter__(self) -> StopRequests:
        for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:  # under `nohup`, ignore the signal
                self._earlier_handlers[number] = signal.signal(number, self._on_signal)
        if self._parent_pid is not None or self._client_fd is not None:
            self._watcher.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._has_ended.set()
        os.close(self._wake_fd)
        if self._watcher.ident is not None:
            self._watcher.join()
        os.close(self._watched_fd)
        for number, handler in self._earlier_handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.reason and number == signal.SIGINT:
            self._end_now(number)
        self._request_stop(SIGNALS[signal.Signals(number).name], number)

    def _request_stop(self, reason: str, number: int) -> None:
        if self.reason:
            return
        self.reason = reason
        threading.Thread(target=self._end_after_grace, args=(number,), name="grace", daemon=True).start()
        self._stop(reason)

    def _end_after_grace(self, number: int) -> None:
        if not self._has_ended.wait(self._grace_s):
            self._end_now(number)

    def _end_now(self, number: int) -> None:
        try:
            self._before_exit()
        finally:
            os._exit(128 + number)

    def _watch(self) -> None:
        """Wait until the parent process or the client has ended, or the block has ended."""
        poll = select.poll()
        poll.register(self._watched_fd, select.POLLIN)
        parent_fd = None if self._parent_pid is None else _process_fd(self._parent_pid)
        if parent_fd is not None:
            poll.register(parent_fd, select.POLLIN)  # readable once the process has ended
        if self._client_fd is not None:
            poll.register(self._client_fd, 0)  # reports only a hang-up
        reason = ""
        while not reason:
            if self._parent_pid is None or (parent_fd is not None and os.getppid() == self._parent_pid):
                events = poll.poll()
            else:
                events = poll.poll(PARENT_POLL_MS)
            if self._has_ended.is_set():
                break
            if any(fd == self._client_fd for fd, _ in events):
                reason = CLIENT_LEFT
            elif any(fd == parent_fd for fd, _ in events) or self._parent_pid not in (None, os.getppid()):
                reason = PARENT_DIED
        if parent_fd is not None:
            os.close(parent_fd)
        if reason:
            self._request_stop(reason, signal.SIGHUP)


def _process_fd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends, or None if that is not supported."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
