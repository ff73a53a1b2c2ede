"""The guard: a small process that starts our programs and outlives us just long enough to end them.

However the core ends, `kill -9` included, the connection between the two closes, and the guard ends all its
descendants and every process with our mark. It starts with the first program: a desk that runs none has none.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path
from threading import Lock
from typing import IO

from mcpdesk.jobs.process_table import MARK

QUIT_S = 5.0
HAND_OVER_S = 2.0
"""How long a guard that is stopped may hold up who starts a program."""
CAN_KEEP = sys.platform == "linux"
"""Whether the guard can start programs and adopt what gets away from them."""


class Guard:
    """Watches over the programs of this process. Any thread may use it.

    With `keeps` the guard starts programs (`start`). Otherwise the caller does, and tells their groups.
    """

    def __init__(self, keeps: bool = CAN_KEEP) -> None:
        self.keeps = keeps
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._groups: set[int] = set()
        self._program: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | IO[bytes] | None = None
        self._lock = Lock()

    def mark(self) -> str:
        """A fresh mark for one job; starts the guard if it does not run."""
        with self._lock:
            self._ensure()
            return f"{self._token}.{next(self._numbers)}"

    def start(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], stdout: int, stderr: int
    ) -> tuple[socket.socket, bytes]:
        """Have a program started under a keeper, with these descriptors as its output.

        Returns the socket on which the keeper reports (see `guard_program.keep`) and what is to be written to
        it first. Raises: OSError when the guard cannot be reached; ValueError for a text with a NUL.
        """
        fields = [str(folder), str(len(argv)), *argv, *map("=".join, environment.items())]
        if any("\0" in field for field in fields):
            raise ValueError("embedded null byte")
        request = b"\0".join(map(os.fsencode, fields))
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._hand_over([theirs.fileno(), stdout, stderr])
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        return ours, len(request).to_bytes(8, "big") + request

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
            self._disconnect()
        if program is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(QUIT_S)

    def _hand_over(self, descriptors: list[int]) -> None:
        with self._lock:
            self._ensure()
            if not isinstance(self._connection, socket.socket):
                raise OSError("the guard starts no programs")
            socket.send_fds(self._connection, [b"start"], descriptors)

    def _ensure(self) -> None:
        if self._program is not None and self._program.poll() is None:
            return
        self._disconnect()
        if not sys.executable:
            return
        self._program, self._connection = _start_keeping(self._token) if self.keeps else _start(self._token)
        for group in self._groups:
            self._tell(f"+{group}\n")

    def _tell(self, line: str) -> None:
        """A guard that was killed is replaced at the next job; one that is stopped must not stop us."""
        if self._connection is not None and not self.keeps:
            with contextlib.suppress(OSError):
                os.write(self._connection.fileno(), line.encode())

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def _start_keeping(token: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(HAND_OVER_S)
    with theirs:
        return _run(token, "keep", theirs.fileno()), ours


def _start(token: str) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    program = _run(token, "groups", subprocess.PIPE)
    assert program.stdin is not None
    os.set_blocking(program.stdin.fileno(), False)
    return program, program.stdin


def _run(token: str, how: str, stdin: int) -> subprocess.Popen[bytes]:
    """The guard's program is given as text: it needs no import path, and starts in a few milliseconds.

    Its environment holds nothing of ours but the marks of jobs this process may itself belong to.
    """
    source = files("mcpdesk.jobs").joinpath("guard_program.py").read_text("utf-8")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, token, how],
        bufsize=0,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in (MARK, "LD_LIBRARY_PATH") if name in os.environ},
        start_new_session=True,
    )


GUARD = Guard()
"""One for this operating system process, because that is what it watches."""
atexit.register(GUARD.close)
