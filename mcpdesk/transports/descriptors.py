"""Claiming of the standard descriptors, so that hosted code cannot disturb a client or the screen.

After `claim`, only private descriptors lead to the client's pipes or to the terminal. Child processes do not
inherit them. Output of hosted code and of child processes is split into lines. Each line is reported with its
stream and, if known, its source line.

On Windows only `sys.stdin` and `sys.stdout` are claimed. Child processes and extension modules still reach
the standard streams there.

Targets of the descriptors in each mode:

    mode    fd 0       fd 1   fd 2       private copies
    wire    /dev/null  lines  unchanged  of stdin and stdout: the client's pipes
    serve   /dev/null  lines  unchanged  as for `wire`, but nothing is written to them
    screen  /dev/null  lines  lines      `sys.__stdin__`, `__stdout__` and `__stderr__`: the terminal
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
"""Capacity of a pipe in bytes. A writer that holds the interpreter lock prevents reading, so it is large."""
FRAMES_SEARCHED = 64
"""Maximum number of stack frames that are searched for the source line of a printed line."""
CAN_CLAIM_DESCRIPTORS = hasattr(os, "fork")
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


class PrintStream(io.TextIOBase):
    """Replacement for `sys.stdout` that reports complete lines, each with its source line."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, fd: int, source: StraySource, on_line: OnLine, folders: Folders) -> None:
        self._fd = fd
        self._source = source
        self._on_line = on_line
        self._folders = folders
        self._unfinished_lines: dict[int, str] = {}
        """Unfinished line by the id of its thread."""
        self.buffer = io.FileIO(fd, "wb", closefd=False)

    def write(self, text: str, /) -> int:
        """Add text, and report the lines that it completes. Each thread has its own unfinished line."""
        thread = threading.get_ident()
        buffered_text = self._unfinished_lines.pop(thread, "") + text
        *lines, unfinished_line = buffered_text.split("\n")
        if len(unfinished_line) > LINE_LIMIT:
            lines, unfinished_line = [*lines, unfinished_line], ""
        if unfinished_line:
            self._unfinished_lines[thread] = unfinished_line
        if lines:
            where = nearest_location(inspect.currentframe(), self._folders())
            for line in lines:
                self._on_line(StrayLine(self._source, line, where))
        return len(text)

    def finish(self) -> None:
        """Report the unfinished lines."""
        unfinished_lines, self._unfinished_lines = self._unfinished_lines, {}
        for line in unfinished_lines.values():
            self._on_line(StrayLine(self._source, line))

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the claimed descriptor, so that the output of child processes is also captured."""
        return self._fd

    def reconfigure(self, **_settings: object) -> None:
        """Accept the settings of a text stream without applying them."""


def nearest_location(frame: FrameType | None, folders: Sequence[str]) -> str:
    """Return the source line of the nearest caller in a hosted folder, such as `tools/slow.py:14`, or ""."""
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
        self._sources: dict[int, StraySource] = {}
        """Source by the read end of its pipe."""
        self._partial_lines: dict[int, bytes] = {}
        self._wake_read_fd, self._wake_write_fd = os.pipe()
        self._thread = threading.Thread(target=self._run, name="stray-output", daemon=True)

    def open(self, source: StraySource) -> int:
        """Create a pipe whose lines are reported as output of `source`. Return the descriptor to write to."""
        import fcntl

        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._sources[read_end] = source
        self._partial_lines[read_end] = b""
        return write_end

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Report the data written so far, and end. Does not wait for children that keep a pipe open."""
        os.close(self._wake_write_fd)
        self._thread.join()
        os.close(self._wake_read_fd)

    def _run(self) -> None:
        is_stopping = False
        while not is_stopping:
            ready, _, _ = select.select([self._wake_read_fd, *self._sources], [], [])
            is_stopping = self._wake_read_fd in ready
            for fd in list(self._sources):
                self._drain(fd)
        for fd in list(self._sources):
            self._end(fd)

    def _drain(self, fd: int) -> None:
        """Read available data, at most the capacity of the pipe, because a fast writer never stops."""
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
        *lines, partial_line = (self._partial_lines[fd] + data).split(b"\n")
        if len(partial_line) > LINE_LIMIT:
            lines, partial_line = [*lines, partial_line], b""
        self._partial_lines[fd] = partial_line
        for line in lines:
            self._deliver(fd, line)

    def _end(self, fd: int) -> None:
        if self._partial_lines[fd]:
            self._deliver(fd, self._partial_lines[fd])
        del self._sources[fd], self._partial_lines[fd]
        os.close(fd)

    def _deliver(self, fd: int, line: bytes) -> None:
        self._on_line(StrayLine(self._sources[fd], line.removesuffix(b"\r").decode("utf-8", "replace")))


Mode: TypeAlias = Literal["wire", "screen", "serve"]

FIRST_PRIVATE_FD = 10


class ClaimedDescriptors:
    """Claimed standard descriptors. The fields are private copies of them, or -1."""

    def __init__(self, mode: Mode, on_line: OnLine, folders: Folders) -> None:
        self.stdin_fd, self.stdout_fd, self.stderr_fd = _private_copy(0), _private_copy(1), -1
        self._restore_stack = ExitStack()
        self._print_streams: dict[str, PrintStream] = {}
        if not CAN_CLAIM_DESCRIPTORS:
            self._reader = None
            self._claim_streams(on_line, folders)
            return
        self._reader = StrayOutputReader(on_line)
        self._claim_input()
        self._claim_output("stdout", 1, on_line, folders)
        if mode == "screen":
            self.stderr_fd = _private_copy(2)
            self._claim_output("stderr", 2, on_line, folders)
            self._connect_screen_streams()
        self._reader.start()

    def redirect_prints(self) -> None:
        """Replace `sys.stdout`, and `sys.stderr` in `screen` mode, again after a library has replaced it."""
        for name, print_stream in self._print_streams.items():
            setattr(sys, name, print_stream)

    def release(self) -> None:
        """Restore the descriptors. Data written before is still reported. A second call does nothing."""
        if self.stdin_fd < 0:
            return
        for print_stream in self._print_streams.values():
            print_stream.finish()
        self._restore_stack.close()
        if self._reader is not None:
            self._reader.stop()
        self._print_streams = {}
        for fd in {self.stdin_fd, self.stdout_fd, self.stderr_fd}:
            if fd >= 0:
                os.close(fd)
        self.stdin_fd = self.stdout_fd = self.stderr_fd = -1

    def _claim_streams(self, on_line: OnLine, folders: Folders) -> None:
        """Replace `sys.stdin` and `sys.stdout` on systems where descriptors cannot be claimed."""
        self._replace_stream("stdin", io.StringIO())
        if sys.stdout is not None:
            sys.stdout.flush()
        print_stream = PrintStream(2, "print", on_line, folders)
        self._print_streams["stdout"] = print_stream
        self._replace_stream("stdout", print_stream)

    def _claim_input(self) -> None:
        null = os.open(os.devnull, os.O_RDONLY)
        self._replace_descriptor(0, null, self.stdin_fd)
        os.close(null)
        self._replace_stream("stdin", _open_stream(0, "r"))

    def _claim_output(self, name: StraySource, fd: int, on_line: OnLine, folders: Folders) -> None:
        """Connect descriptor `fd` to a pipe of the reader, and replace the stream `sys.<name>`."""
        assert self._reader is not None
        write_end = self._reader.open(name)
        stream: TextIO | None = getattr(sys, name)
        if stream is not None:
            stream.flush()
        self._replace_descriptor(fd, write_end, self.stdout_fd if fd == 1 else self.stderr_fd)
        os.close(write_end)
        print_stream = PrintStream(fd, "print" if fd == 1 else name, on_line, folders)
        self._print_streams[name] = print_stream
        self._replace_stream(name, print_stream)

    def _connect_screen_streams(self) -> None:
        """Connect the streams that the screen uses to private copies: `sys.__stdin__` and so on."""
        self._replace_stream("__stdin__", _open_stream(self.stdin_fd, "r"))
        self._replace_stream("__stdout__", _open_stream(self.stdout_fd, "w"))
        self._replace_stream("__stderr__", _open_stream(self.stderr_fd, "w"))

    def _replace_descriptor(self, fd: int, replacement: int, private: int) -> None:
        os.dup2(replacement, fd)
        self._restore_stack.callback(os.dup2, private, fd)

    def _replace_stream(self, name: str, stream: io.TextIOBase | TextIO) -> None:
        self._restore_stack.callback(setattr, sys, name, getattr(sys, name))
        setattr(sys, name, stream)


def claim(mode: Mode, on_line: OnLine, folders: Folders = tuple) -> ClaimedDescriptors:
    """Claim the standard descriptors. Call it on the main thread before hosted code is imported.

    `on_line` is called on any thread. `folders` returns the hosted folders. Raises: TransportError if a
    descriptor is closed.
    """
    return ClaimedDescriptors(mode, on_line, folders)


def _open_stream(fd: int, mode: str) -> TextIO:
    """Open a text stream on a descriptor. Closing the stream leaves the descriptor open."""
    return cast(TextIO, open(fd, mode, encoding="utf-8", errors="replace", closefd=False))


def _private_copy(fd: int) -> int:
    try:
        if not CAN_CLAIM_DESCRIPTORS:
            return os.dup(fd)
        import fcntl

        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    except OSError as error:
        name = ("stdin", "stdout", "stderr")[fd]
        raise TransportError(f"{name} is not open: {error.strerror}") from None
