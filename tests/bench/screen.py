"""A program in a pseudo-terminal of 120x40, watched for its words. Nothing is rendered here."""

from __future__ import annotations

import os
import pty
import re
import signal
import struct
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from threading import Condition, Thread

from tests.bench.process import environment

COLUMNS, ROWS = 120, 40
WITHIN_S = 30.0
_READ = 1 << 16
_LOOKED_AT = 1 << 17
"""Bytes of output searched at a time: several whole screens."""
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;:?<>=]*[ -/]*[@-~]|[P\]_][^\x1b\x07]*(?:\x1b\\|\x07)|.)")


class Screen:
    """A running program; a separate thread reads its output."""

    def __init__(self, command: Sequence[str], state: Path) -> None:
        self.began = time.perf_counter()
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execve(command[0], [*command], environment(state))
        self._drawn = bytearray()
        """Output since the last key."""
        self._last = self.began
        """Time of its last piece."""
        self._is_open = True
        self._came = Condition()
        self._reading = Thread(target=self._read, daemon=True)
        self._reading.start()

    def press(self, keys: str, pattern: str) -> float:
        """Type, wait until matching text is drawn, and return the milliseconds."""
        with self._came:
            self._drawn.clear()
        pressed = time.perf_counter()
        os.write(self._terminal, keys.encode())
        return 1000 * (self.see(pattern) - pressed)

    def see(self, pattern: str) -> float:
        """Wait until text drawn since the last key matches; return its time by `perf_counter`.

        Raises: RuntimeError on timeout, with the end of the output.
        """
        wanted = re.compile(pattern.encode())
        end = time.perf_counter() + WITHIN_S
        with self._came:
            while not wanted.search(self._text()):
                if not self._is_open or not self._came.wait(max(0.0, end - time.perf_counter())):
                    raise RuntimeError(f"{pattern!r} was not drawn: {self._text()[-3000:]!r}")
            return self._last

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Stop the program during the block, so that it uses no time of another measurement."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._reading.join()
        os.close(self._terminal)

    def _text(self) -> bytes:
        """Words of the newest drawing, without moves and colours."""
        return _ESCAPES.sub(b"", bytes(self._drawn[-_LOOKED_AT:]))

    def _read(self) -> None:
        while self._is_open:
            try:
                data = os.read(self._terminal, _READ)
            except OSError:
                data = b""
            with self._came:
                self._last = time.perf_counter()
                self._is_open = bool(data)
                self._drawn += data
                self._came.notify_all()
