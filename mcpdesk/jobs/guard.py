"""The guard: a tiny process that outlives ours just long enough to end what we started.

However the core ends, `kill -9` included, the pipe between the two closes, and the guard ends the groups and
every process with our mark. It starts with the first child: a desk that runs no programs has none.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import subprocess
import sys
from importlib.resources import files
from itertools import count
from threading import Lock

QUIT_S = 5.0


class Guard:
    """Watches over the process groups of this process. Any thread may use it."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._groups: set[int] = set()
        self._program: subprocess.Popen[bytes] | None = None
        self._lock = Lock()

    def mark(self) -> str:
        """A fresh mark for one job; starts the guard if it does not run."""
        with self._lock:
            self._ensure()
            return f"{self._token}.{next(self._numbers)}"

    def watch(self, group: int) -> None:
        """End this process group should we die."""
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def release(self, group: int) -> None:
        """The group is gone; its number may be somebody else's soon."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def close(self) -> None:
        """Let the guard end what is left, and itself."""
        with self._lock:
            program, self._program = self._program, None
        if program is not None and program.stdin is not None:
            with contextlib.suppress(OSError):
                program.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(QUIT_S)

    def _ensure(self) -> None:
        if self._program is not None and self._program.poll() is None:
            return
        self._discard()
        self._program = _start(self._token)
        for group in self._groups:
            self._tell(f"+{group}\n")

    def _tell(self, line: str) -> None:
        """A guard that was killed is replaced at the next job; one that is stopped must not stop us."""
        if self._program is not None and self._program.stdin is not None:
            with contextlib.suppress(OSError):
                os.write(self._program.stdin.fileno(), line.encode())

    def _discard(self) -> None:
        if self._program is not None and self._program.stdin is not None:
            self._program.stdin.close()


def _start(token: str) -> subprocess.Popen[bytes] | None:
    """The guard's program is given as text: it needs no import path, and starts in a few milliseconds."""
    if not sys.executable:
        return None
    source = files("mcpdesk.jobs").joinpath("guard_program.py").read_text("utf-8")
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, token],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    assert program.stdin is not None
    os.set_blocking(program.stdin.fileno(), False)
    return program


GUARD = Guard()
"""One for this operating system process, because that is what it watches."""
atexit.register(GUARD.close)
