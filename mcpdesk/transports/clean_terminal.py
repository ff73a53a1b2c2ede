"""Removal of control characters from stderr on a terminal, for commands without a screen.

Hosted code and programs write to `sys.stderr` or to file descriptor 2. After `guard`, `sys.stderr` makes
control characters visible. Descriptor 2 becomes a pipe to a small process that does the same and writes to
the terminal. A thread would not be enough: the last output of a killed command must still appear, and
children that outlive the command may write more. Output to a file or a pipe is not changed.
"""

from __future__ import annotations

import io
import os
import select
import sys
import time
from collections.abc import Iterator

FIRST_PRIVATE_FD = 10
READ_BYTES = 64 << 10
MAX_WAIT_S = 0.3
"""Maximum seconds to wait at the end until the other process has read the pipe."""
POLL_S = 0.002
"""Seconds between two checks of the pipe at the end."""


class CleanStream(io.TextIOBase):
    """Text stream that writes to a terminal with control characters made visible."""

    encoding = "utf-8"
    errors = "replace"
    is_on_terminal = True

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self.buffer = io.FileIO(2, "wb", closefd=False)

    def write(self, text: str, /) -> int:
        """Write text at once."""
        _write(self._terminal, harmless(text))
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return a descriptor whose output is also cleaned."""
        return 2

    def reconfigure(self, **_settings: object) -> None:
        """Accept the settings of a text stream without applying them."""


def guard() -> None:
    """Clean all text that is written to stderr from now on, if stderr is a terminal."""
    if not hasattr(os, "fork") or sys.stderr is None or not os.isatty(2):
        return
    import fcntl

    sys.stderr.flush()
    terminal = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        try:
            _copy_to_terminal(read_end, terminal)
        finally:
            os._exit(0)
    os.dup2(write_end, 2)
    os.close(read_end)
    os.close(write_end)
    sys.stderr = CleanStream(terminal)


def is_terminal() -> bool:
    """Return True if stderr is a terminal."""
    return sys.stderr is not None and (sys.stderr.isatty() or hasattr(sys.stderr, "is_on_terminal"))


def settle() -> None:
    """Wait until the terminal has received all output.

    Call this at the end of a command. Afterwards, text that code writes to stdout on a terminal goes to
    stderr, too.
    """
    if not isinstance(sys.stderr, CleanStream):
        return
    import fcntl
    import termios

    if sys.stdout is not None and os.isatty(1):
        sys.stdout.flush()
        os.dup2(2, 1)
        sys.stdout = sys.stderr
    deadline = time.monotonic() + MAX_WAIT_S
    while any(fcntl.ioctl(2, termios.FIONREAD, b"\0" * 4)) and time.monotonic() < deadline:
        time.sleep(POLL_S)


def harmless(text: str) -> str:
    """Return text that is safe for a terminal.

    Control characters become visible. A carriage return begins a new line.
    """
    from mcpdesk.plain_text import clean

    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def cleaned(pieces: Iterator[bytes]) -> Iterator[str]:
    """Yield the bytes as safe text. A character or a line end may be split between two pieces."""
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    carriage_return = ""
    for piece in pieces:
        text = carriage_return + decoder.decode(piece)
        carriage_return = "\r" if text.endswith("\r") else ""
        yield harmless(text.removesuffix("\r"))
    yield harmless(carriage_return + decoder.decode(b"", final=True))


def _copy_to_terminal(source: int, terminal: int) -> None:
    """Copy data to the terminal until no process has the other end of the pipe open."""
    os.setsid()  # without this, ctrl+c and ctrl+z would end this process
    descriptors = sorted((source, terminal))  # all others are closed
    for lower, upper in zip((-1, *descriptors), (*descriptors, os.sysconf("SC_OPEN_MAX")), strict=True):
        os.closerange(lower + 1, upper)
    for text in cleaned(iter(lambda: os.read(source, READ_BYTES), b"")):
        _write(terminal, text)


def _write(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:  # a program on the same terminal made the terminal non-blocking
            select.select([], [terminal], [])
