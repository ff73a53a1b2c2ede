"""Claims the process's standard descriptors before hosted code is imported.

Afterwards the wire, or the terminal, is reachable through private descriptors only, which child processes do
not inherit. What hosted code prints, and what its children write, becomes lines with a source and a place.

    mode     fd 0        fd 1    fd 2       private
    wire     /dev/null   lines   unchanged  stdin and stdout are the client's pipes
    serve    /dev/null   lines   unchanged  as for `wire`; nothing is written there
    screen   /dev/null   lines   lines      `sys.__stdin__`, `__stdout__`, `__stderr__` are the terminal's
"""

from __future__ import annotations

import fcntl
import io
import os
import sys
from contextlib import ExitStack
from typing import Literal, TextIO, TypeAlias, cast

from mcpdesk.errors import TransportError
from mcpdesk.transports.strays import Folders, OnLine, Prints, Source, StrayReader

Mode: TypeAlias = Literal["wire", "screen", "serve"]

FIRST_PRIVATE_FD = 10


class Claimed:
    """The claim, until `release`. The descriptors are private copies of what was there; -1: none."""

    def __init__(self, mode: Mode, on_line: OnLine, folders: Folders) -> None:
        self.stdin_fd, self.stdout_fd, self.stderr_fd = _private(0), _private(1), -1
        self._undo = ExitStack()
        self._reader = StrayReader(on_line)
        self._printers: dict[str, Prints] = {}
        self._claim_input()
        self._claim_output("stdout", 1, on_line, folders)
        if mode == "screen":
            self.stderr_fd = _private(2)
            self._claim_output("stderr", 2, on_line, folders)
            self._lend_terminal()
        self._reader.start()

    def redirect_prints(self) -> None:
        """Point `sys.stdout` (and in `screen` mode `sys.stderr`) here again, after a library took them."""
        for name, prints in self._printers.items():
            setattr(sys, name, prints)

    def release(self) -> None:
        """Put everything back as it was. What was written before is still delivered. Idempotent."""
        if self.stdin_fd < 0:
            return
        for prints in self._printers.values():
            prints.finish()
        self._undo.close()
        self._reader.stop()
        self._printers = {}
        for fd in {self.stdin_fd, self.stdout_fd, self.stderr_fd}:
            if fd >= 0:
                os.close(fd)
        self.stdin_fd = self.stdout_fd = self.stderr_fd = -1

    def _claim_input(self) -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        self._swap(0, nothing, self.stdin_fd)
        os.close(nothing)
        self._set("stdin", _stream(0, "r"))

    def _claim_output(self, name: Source, fd: int, on_line: OnLine, folders: Folders) -> None:
        entrance = self._reader.open(name)
        stream: TextIO | None = getattr(sys, name)
        if stream is not None:
            stream.flush()
        self._swap(fd, entrance, self.stdout_fd if fd == 1 else self.stderr_fd)
        os.close(entrance)
        prints = Prints(fd, "print" if fd == 1 else name, on_line, folders)
        self._printers[name] = prints
        self._set(name, prints)

    def _lend_terminal(self) -> None:
        """Give the screen's driver, which uses the interpreter's original streams, the private copies."""
        self._set("__stdin__", _stream(self.stdin_fd, "r"))
        self._set("__stdout__", _stream(self.stdout_fd, "w"))
        self._set("__stderr__", _stream(self.stderr_fd, "w"))

    def _swap(self, fd: int, replacement: int, private: int) -> None:
        os.dup2(replacement, fd)
        self._undo.callback(os.dup2, private, fd)

    def _set(self, name: str, stream: io.TextIOBase | TextIO) -> None:
        self._undo.callback(setattr, sys, name, getattr(sys, name))
        setattr(sys, name, stream)


def claim(mode: Mode, on_line: OnLine, folders: Folders = tuple) -> Claimed:
    """Take over the standard descriptors; call it before hosted code is imported, on the main thread.

    `on_line` is called from any thread. `folders` tells the hosted folders: a print's place is there.
    Raises: TransportError when a descriptor is closed.
    """
    return Claimed(mode, on_line, folders)


def _stream(fd: int, mode: str) -> TextIO:
    """A text stream on a descriptor that somebody else owns."""
    return cast(TextIO, open(fd, mode, encoding="utf-8", errors="replace", closefd=False))


def _private(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE_FD)
    except OSError as error:
        name = ("stdin", "stdout", "stderr")[fd]
        raise TransportError(f"{name} is not open: {error.strerror}") from None
