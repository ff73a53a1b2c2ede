"""One program that was started: its output, its exit code, and whether anything of its family is left.

Used on the supervisor's loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Protocol

from mcpdesk.jobs.guard import GUARD
from mcpdesk.jobs.output import Stream

LOOK_S = 0.02
"""How often an end that wakes nobody is looked for."""
REPORT_BYTES = 4096


class Child(Protocol):
    """A program that runs, or has run."""

    pid: int
    keeper: int
    """The process that adopts what the program leaves behind; 0 when there is none."""
    is_empty: bool
    """Whether it and all its descendants have surely ended."""
    outputs: dict[Stream, IO[bytes]]

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def tell_end(self, ended: Callable[[], None]) -> None:
        """Have a function called once it has ended."""

    def close(self) -> None:
        """Watch it no longer. What a keeper still holds is killed."""


async def start_child(argv: Sequence[str], folder: Path, environment: dict[str, str]) -> Child:
    """Start a program in a session of its own, without input.

    Raises: OSError when it cannot be started.
    """
    if GUARD.keeps:
        try:
            return await KeptChild.start(argv, folder, environment)
        except ConnectionError:
            pass  # the guard was killed or cannot run here: what it would watch has its mark
    return OwnChild(argv, folder, environment)


class KeptChild:
    """A program under a keeper, a process that adopts its orphans."""

    def __init__(self, control: socket.socket, outputs: dict[Stream, IO[bytes]]) -> None:
        self.pid = self.keeper = 0
        self.is_empty = False
        self.outputs = outputs
        self.code: int | None = None
        self._control = control
        self._ended: Callable[[], None] = lambda: None
        self._unread = b""

    @classmethod
    async def start(cls, argv: Sequence[str], folder: Path, environment: dict[str, str]) -> KeptChild:
        """Raises: ConnectionError when the guard or the keeper is gone; OSError from the program's start."""
        pairs = os.pipe(), os.pipe()
        outputs: dict[Stream, IO[bytes]] = {
            "stdout": os.fdopen(pairs[0][0], "rb", buffering=0),
            "stderr": os.fdopen(pairs[1][0], "rb", buffering=0),
        }
        try:
            try:
                control, request = GUARD.start(argv, folder, environment, pairs[0][1], pairs[1][1])
            except OSError as error:
                raise ConnectionError("no guard") from error
            finally:
                os.close(pairs[0][1])
                os.close(pairs[1][1])
            child = cls(control, outputs)
            await child._begin(request, argv[0], folder)
        except BaseException:
            for pipe in outputs.values():
                pipe.close()
            raise
        return child

    async def _begin(self, request: bytes, program: str, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._control, request)
            report = b""
            while not report.partition(b"\n")[1]:
                more = await loop.sock_recv(self._control, REPORT_BYTES)
                if not more:
                    raise ConnectionError("the keeper is gone")
                report += more
            first, _, self._unread = report.partition(b"\n")
            if first[:1] == b"e":
                number, _, place = first[1:].decode().partition(" ")
                failed = str(folder) if place == "folder" else program
                raise OSError(int(number), os.strerror(int(number)), failed)
        except BaseException:
            self._control.close()
            raise
        self.pid, self.keeper = map(int, first[1:].split())

    def tell_end(self, ended: Callable[[], None]) -> None:
        """Have a function called once it has ended."""
        self._ended = ended
        asyncio.get_running_loop().add_reader(self._control.fileno(), self._reported)
        self._take(b"")

    def close(self) -> None:
        """Watch it no longer; the keeper kills what is left of the family."""
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()

    def _reported(self) -> None:
        try:
            data = self._control.recv(REPORT_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            data = b""
        if data:
            self._take(data)
            return
        self.close()
        if self.code is None:  # the keeper was killed, and the guard kills what it kept
            self.code = -signal.SIGKILL
            self._ended()

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            if line == b"!":
                self.is_empty = True
        for line in lines:
            if line[:1] == b"-":
                self.code = int(line[1:])
                self._ended()


class OwnChild:
    """A program that is a child of this process."""

    def __init__(self, argv: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        """Raises: OSError when it cannot be started."""
        self._popen = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        assert self._popen.stdout is not None and self._popen.stderr is not None
        self.pid, self.keeper, self.is_empty = self._popen.pid, 0, False
        self.outputs: dict[Stream, IO[bytes]] = {"stdout": self._popen.stdout, "stderr": self._popen.stderr}
        self._exit: int | None = None
        """A descriptor that wakes us as the program ends; None later, and without pidfd."""
        self._next_look: asyncio.TimerHandle | None = None
        """Where nothing wakes us."""

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._popen.poll()

    def tell_end(self, ended: Callable[[], None]) -> None:
        """Have a function called once it has ended."""
        try:
            self._exit = os.pidfd_open(self.pid)
            asyncio.get_running_loop().add_reader(self._exit, self._exited, ended)
        except (AttributeError, OSError):  # neither every system nor every kernel has it
            self._look_for_end(ended)

    def close(self) -> None:
        """Watch it no longer."""
        self._forget_exit()
        if self._next_look is not None:
            self._next_look.cancel()

    def _exited(self, ended: Callable[[], None]) -> None:
        self._forget_exit()
        ended()

    def _look_for_end(self, ended: Callable[[], None]) -> None:
        if self.code is None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_S, self._look_for_end, ended)
        else:
            ended()

    def _forget_exit(self) -> None:
        if self._exit is not None:
            asyncio.get_running_loop().remove_reader(self._exit)
            os.close(self._exit)
            self._exit = None
