"""Claiming of the standard descriptors, so that hosted code cannot disturb a client or the screen.

After `claim`, only private descriptors lead to the client's pipes or to the terminal. Child processes do not
inherit them. Output of hosted code and of child processes is split into lines. Each line is reported with its
stream and, if known, its source line.

On Windows only `sys.stdin` and `sys.stdout` are claimed. Child processes and extension modules still reach
the standard streams there.

mode fd 0 fd 1 fd 2 private wire /dev/null lines unchanged stdin and stdout are the client's pipes serve
/dev/null lines unchanged as for `wire`; nothing is written there screen /dev/null lines lines
`sys.__stdin__`, `__stdout__`, `__stderr__` are the terminal's
"""

from __future__ import annotations

import inspect
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Literal, TextIO, TypeAlias, cast

from msgspec import Struct

from mcpdesk.errors import TransportError

StraySource: TypeAlias = Literal["print", "stdout", "stderr"]

READ_SIZE = 64 * 1024
LINE_LIMIT = 64 * 1024
"""Maximum size in bytes or characters of a line without an end. A longer line is split."""
PIPE_SIZE = 1 << 20
"""Capacity of a pipe. A writer that holds the interpreter lock prevents reading, so the pipe must be
large.
"""
FRAMES_SEARCHED = 64
HAS_CLAIMS = hasattr(os, "fork")
"""False on Windows, where `select` does not wait for pipes."""


class StrayLine(Struct, frozen=True):
    """One line that hosted code, or a program that it started, wrote to a standard stream."""

    source: StraySource
    """`print` for `sys.stdout`. `stdout` or `stderr` if a child or an extension wrote to the descriptor."""
    text: str
    where: str = ""
    """Source line in the hosted folder, such as `tools/slow.py:14`, or "" if unknown."""


OnLine: TypeAlias = Callable[[StrayLine], None]
Folders: TypeAlias = Callable[[], Sequence[str]]


class PrintedLines(io.TextIOBase):
    """Replacement for `sys.stdout` that reports complete lines, each with its source line."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, fd: int, source: StraySource, on_line: OnLine, folders: Folders) -> None:
        self._fd = fd
        self._source = source
        self._on_line = on_line
        self._folders = folders
        self._started: dict[int, str] = {}
        self.buffer = io.FileIO(fd, "wb", closefd=False)

    def write(self, text: str, /) -> int:
        """Add text, and report the lines that it completes. Each thread has its own unfinished line."""
        thread = threading.get_ident()
        text_so_far = self._started.pop(thread, "") + text
        *lines, rest = text_so_far.split("\n")
        if len(rest) > LINE_LIMIT:
            lines, rest = [*lines, rest], ""
        if rest:
            self._started[thread] = rest
        if lines:
            where = nearest_location(inspect.currentframe(), self._folders())
            for line in lines:
                self._on_line(StrayLine(self._source, line, where))
        return len(text)

    def finish(self) -> None:
        """Report the unfinished lines."""
        started, self._started = self._started, {}
        for line in started.values():
            self._on_line(StrayLine(self._source, line))

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the claimed descriptor, so that the output of child processes is also captured."""
        return self._fd

    def reconfigure(self, **_settings: object) -> None:
        """Accept the settings of a text stream without applying them."""


def nearest_location(frame: FrameType | None, folders: Sequence[str]) -> str:
    """Return the source line of the nearest caller in a hosted folder, such as `tools/slow.py:14`, or "" if
    no caller is in a hosted folder.
    """
    for _ in range(FRAMES_SEARCHED):
        if frame is None:
            break
        file = frame.f_code.co_filename
        for folder in folders:
            if file.startswith(folder) and file[len(folder) : len(folder) + 1] == os.sep:
                return f"{file[len(folder) + 1 :]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


class StrayOutputReader:
    """Thread that reads pipes and splits the data into lines."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._names: dict[int, StraySource] = {}
        self._rests: dict[int, bytes] = {}
        self._waker, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="stray-output", daemon=True)

    def open(self, name: StraySource) -> int:
        """Create a pipe, and return the descriptor to write to. Lines from this pipe are reported with
        `name`.
        """
        import fcntl

        exit_end, entrance = os.pipe()
        os.set_blocking(exit_end, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(entrance, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._names[exit_end] = name
        self._rests[exit_end] = b""
        return entrance

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Report the data written so far, and end. Does not wait for children that keep a pipe open."""
        os.close(self._wake)
        self._thread.join()
        os.close(self._waker)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            ready, _, _ = select.select([self._waker, *self._names], [], [])
            stopping = self._waker in ready
            for fd in list(self._names):
                self._drain(fd)
        for fd in list(self._names):
            self._end(fd)

    def _drain(self, fd: int) -> None:
        """Read available data, but at most what a pipe can hold, so that a fast writer cannot keep this
        thread from ending.
        """
        for _ in range(PIPE_SIZE // READ_SIZE + 1):
            try:
                data = os.read(fd, READ_SIZE)
            except BlockingIOError:
                return
            if not data:
                self._end(fd)
                return
            self._split(fd, data)

    def _split(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._rests[fd] + data).split(b"\n")
        if len(rest) > LINE_LIMIT:
            lines, rest = [*lines, rest], b""
        self._rests[fd] = rest
        for line in lines:
            self._deliver(fd, line)

    def _end(self, fd: int) -> None:
        if self._rests[fd]:
            self._deliver(fd, self._rests[fd])
        del self._names[fd], self._rests[fd]
        os.close(fd)

    def _deliver(self, fd: int, line: bytes) -> None:
        self._on_line(StrayLine(self._names[fd], line.removesuffix(b"\r").decode("utf-8", "replace")))


Mode: TypeAlias = Literal["wire", "screen", "serve"]

FIRST_PRIVATE_FD = 10


class ClaimedDescriptors:
    """Claimed standard descriptors. The fields are private copies of them, or -1."""

    def __init__(self, mode: Mode, on_line: OnLine, folders: Folders) -> None:
        self.stdin_fd, self.stdout_fd, self.stderr_fd = _private(0), _private(1), -1
        self._undo = ExitStack()
        self._printers: dict[str, PrintedLines] = {}
        if not HAS_CLAIMS:
            self._reader = None
            self._claim_streams(on_line, folders)
            return
        self._reader = StrayOutputReader(on_line)
        self._claim_input()
        self._claim_output("stdout", 1, on_line, folders)
        if mode == "screen":
            self.stderr_fd = _private(2)
            self._claim_output("stderr", 2, on_line, folders)
            self._give_terminal_to_screen()
        self._reader.start()

    def redirect_prints(self) -> None:
        """Replace `sys.stdout` (in `screen` mode also `sys.stderr`) again, after a library has
        replaced it.
        """
        for name, prints in self._printers.items():
            setattr(sys, name, prints)

    def release(self) -> None:
        """Restore the descriptors. Data written before is still reported. A second call does nothing."""
        if self.stdin_fd < 0:
            return
        for prints in self._printers.values():
            prints.finish()
        self._undo.close()
        if self._reader is not None:
            self._reader.stop()
        self._printers = {}
        for fd in {self.stdin_fd, self.stdout_fd, self.stderr_fd}:
            if fd >= 0:
                os.close(fd)
        self.stdin_fd = self.stdout_fd = self.stderr_fd = -1

    def _claim_streams(self, on_line: OnLine, folders: Folders) -> None:
        """Replace `sys.stdin` and `sys.stdout` on systems where descriptors cannot be claimed."""
        self._set("stdin", io.StringIO())
        if sys.stdout is not None:
            sys.stdout.flush()
        prints = PrintedLines(2, "print", on_line, folders)
        self._printers["stdout"] = prints
        self._set("stdout", prints)

    def _claim_input(self) -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        self._swap(0, nothing, self.stdin_fd)
        os.close(nothing)
        self._set("stdin", _stream(0, "r"))

    def _claim_output(self, name: StraySource, fd: int, on_line: OnLine, folders: Folders) -> None:
        assert self._reader is not None
        entrance = self._reader.open(name)
        stream: TextIO | None = getattr(sys, name)
        if stream is not None:
            stream.flush()
        self._swap(fd, entrance, self.stdout_fd if fd == 1 else self.stderr_fd)
        os.close(entrance)
        prints = PrintedLines(fd, "print" if fd == 1 else name, on_line, folders)
        self._printers[name] = prints
        self._set(name, prints)

    def _give_terminal_to_screen(self) -> None:
        """Connect `sys.__stdin__`, `__stdout__` and `__stderr__` to the private copies, because the screen
        uses them.
        """
        self._set("__stdin__", _stream(self.stdin_fd, "r"))
        self._set("__stdout__", _stream(self.stdout_fd, "w"))
        self._set("__stderr__", _stream(self.stderr_fd, "w"))

    def _swap(self, fd: int, replacement: int, private: int) -> None:
        os.dup2(replacement, fd)
        self._undo.callback(os.dup2, private, fd)

    def _set(self, name: str, stream: io.TextIOBase | TextIO) -> None:
        self._undo.callback(setattr, sys, name, getattr(sys, name))
        setattr(sys, name, stream)


def claim(mode: Mode, on_line: OnLine, folders: Folders = tuple) -> ClaimedDescriptors:
    """Claim the standard descriptors. Call it on the main thread before hosted code is imported.

    `on_line` is called on any thread. `folders` returns the hosted folders. Raises: TransportError if a
    descriptor is closed.
    """
    return ClaimedDescriptors(mode, on_line, folders)


def _stream(fd: int, mode: str) -> TextIO:
    """Open a text stream on a descriptor. Closing the stream leaves the descriptor open."""
    return cast(TextIO, open(fd, mode, encoding="utf-8", errors="replace", closefd=False))


def _private(fd: int) -> int:
    try:
        if not HAS_CLAIMS:
            return os.dup(fd)
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    except OSError as error:
        name = ("stdin", "stdout", "stderr")[fd]
        raise TransportError(f"{name} is not open: {error.strerror}") from None
