"""Starts programs, as children of this process or under a keeper: a process that adopts the orphans of one
program.

`KeeperChild` and `DirectChild` are used on the event loop of the `Supervisor` in the module `process`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import IO

from mcpdesk.jobs.output import Stream
from mcpdesk.jobs.process_table import MARK
from mcpdesk.jobs.schedule import call_soon_safely

QUIT_S = 5.0
"""Seconds that `ProgramGuard.close` waits for the guard to end."""
HAND_OVER_TIMEOUT_S = 2.0
"""Maximum time that the start of a program waits for a guard that does not answer."""
HAS_GROUPS = hasattr(os, "killpg")
"""False on Windows. No program can be started there, because its child processes could not be ended."""
HAS_GUARD = sys.platform == "linux"
"""True if the guard can start programs and adopt their orphans on this platform."""


class ProgramGuard:
    """A small process that starts our programs, and outlives this process just long enough to end them.

    Whenever this process ends, even by `kill -9`, its connection to the guard closes. The guard then kills
    all its own descendants and every process with our mark. The guard itself is started when the first
    program needs it. Safe on any thread.

    If `starts_programs` is true, the guard starts the programs (`start`). Otherwise the caller starts the
    programs and reports their process groups (`watch`).
    """

    def __init__(self, starts_programs: bool = HAS_GUARD) -> None:
        self.starts_programs = starts_programs
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._groups: set[int] = set()
        self._program: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | IO[bytes] | None = None
        self._lock = Lock()
        self._changes: deque[tuple[int, bool]] = deque()
        """Process groups that the guard must watch (True) or stop watching (False)."""

    def new_mark(self) -> str:
        """Return a new mark for one job. Starts the guard if it does not run."""
        with self._locked():
            self._ensure_running()
            return f"{self._token}.{next(self._numbers)}"

    def start(
        self, argv: Sequence[str], folder: Path, environment: Mapping[str, str], stdout: int, stderr: int
    ) -> tuple[socket.socket, bytes]:
        """Start a program under a keeper, with these descriptors as its output.

        Return the socket on which the keeper reports (see `guard_program.keep`), and the data to write to it
        first. Raises: OSError if the guard cannot be reached; ValueError for a text with a NUL.
        """
        fields = [str(folder), str(len(argv)), *argv, *map("=".join, environment.items())]
        if any("\0" in field for field in fields):
            raise ValueError("embedded null byte")
        request = b"\0".join(map(os.fsencode, fields))
        own_end, guard_end = socket.socketpair()
        with guard_end:
            try:
                self._send_descriptors([guard_end.fileno(), stdout, stderr])
            except OSError:
                own_end.close()
                raise
        own_end.setblocking(False)
        return own_end, len(request).to_bytes(8, "big") + request

    def watch(self, group: int) -> None:
        """Make the guard end a process group if this process dies. Never waits for another thread."""
        self._changes.append((group, True))
        self._report_changes()

    def release(self, group: int) -> None:
        """Stop watching a process group that has ended, because the system may reuse its number.

        Never waits.
        """
        self._changes.append((group, False))
        self._report_changes()

    def close(self) -> None:
        """End the guard, which ends all remaining programs."""
        with self._locked():
            program, self._program = self._program, None
            self._disconnect()
        if program is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(QUIT_S)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock. Then report the changes that other threads queued in the meantime."""
        with self._lock:
            yield
        self._report_changes()

    def _report_changes(self) -> None:
        """Report `_changes` to the guard. If another thread holds the lock, that thread reports them."""
        while self._changes and self._lock.acquire(blocking=False):
            try:
                while self._changes:
                    group, is_watched = self._changes.popleft()
                    if is_watched:
                        self._groups.add(group)
                        self._write_to_guard(f"+{group}\n")
                    else:
                        self._groups.discard(group)
                        self._write_to_guard(f"-{group}\n")
            finally:
                self._lock.release()

    def _send_descriptors(self, descriptors: list[int]) -> None:
        with self._locked():
            self._ensure_running()
            if not isinstance(self._connection, socket.socket):
                raise OSError("the guard starts no programs")
            socket.send_fds(self._connection, [b"start"], descriptors)

    def _ensure_running(self) -> None:
        """Start the guard if it does not run, and report all watched groups to it."""
        if self._program is not None and self._program.poll() is None:
            return
        self._disconnect()
        if not sys.executable or not HAS_GROUPS:
            return
        start_guard = _start_keeper_guard if self.starts_programs else _start_group_guard
        self._program, self._connection = start_guard(self._token)
        for group in self._groups:
            self._write_to_guard(f"+{group}\n")

    def _write_to_guard(self, line: str) -> None:
        """Write a line to the guard. Errors are ignored, because the next job replaces a killed guard."""
        if self._connection is not None and not self.starts_programs:
            with contextlib.suppress(OSError):
                os.write(self._connection.fileno(), line.encode())

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()


def _start_keeper_guard(token: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    own_end, keeper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own_end.settimeout(HAND_OVER_TIMEOUT_S)
    with keeper_end:
        return _run_guard(token, "keep", keeper_end.fileno()), own_end


def _start_group_guard(token: str) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    program = _run_guard(token, "groups", subprocess.PIPE)
    assert program.stdin is not None
    os.set_blocking(program.stdin.fileno(), False)
    return program, program.stdin


def _run_guard(token: str, mode: str, stdin: int) -> subprocess.Popen[bytes]:
    """Start the guard. Its source is passed on the command line, so it needs no import path and starts fast.

    The environment of the guard contains only the marks of jobs to which this process itself may belong.
    """
    source = files("mcpdesk.jobs").joinpath("guard_program.py").read_text("utf-8")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", source, token, mode],
        bufsize=0,
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={name: os.environ[name] for name in (MARK, "LD_LIBRARY_PATH") if name in os.environ},
        start_new_session=True,
    )


GUARD = ProgramGuard()
"""Guard of this process."""
atexit.register(GUARD.close)


REPORT_BYTES = 4096
"""Maximum number of bytes of a keeper's reports that are read at once."""


async def start_child(
    argv: Sequence[str], folder: Path, environment: dict[str, str]
) -> KeeperChild | DirectChild:
    """Start a program in its own session, without input. Raises: OSError if it cannot be started."""
    if not HAS_GROUPS:
        raise OSError(errno.ENOTSUP, "programs cannot be started on Windows, which lacks process groups")
    if GUARD.starts_programs:
        try:
            return await KeeperChild.start(argv, folder, environment)
        except ConnectionError:
            pass  # the guard was killed or cannot run; the mark still identifies the program
    return DirectChild(argv, folder, environment)


class KeeperChild:
    """A program under a keeper, a process that adopts its orphans."""

    def __init__(self, control: socket.socket, outputs: dict[Stream, IO[bytes]]) -> None:
        self.pid = self.keeper = 0
        """Process numbers of the program and of its keeper."""
        self.is_empty = False
        """True if the program and all its descendants have certainly ended."""
        self.outputs = outputs
        self.code: int | None = None
        """Exit code, negative for a signal, or None while it runs."""
        self._control = control
        self._end_callback: Callable[[], None] = lambda: None
        self._unread = b""

    @classmethod
    async def start(cls, argv: Sequence[str], folder: Path, environment: dict[str, str]) -> KeeperChild:
        """Start a program under a keeper.

        Raises: ConnectionError if the guard or the keeper has ended; OSError if the program cannot be
        started.
        """
        stdout_reader, stdout_writer = os.pipe()
        stderr_reader, stderr_writer = os.pipe()
        outputs: dict[Stream, IO[bytes]] = {
            "stdout": os.fdopen(stdout_reader, "rb", buffering=0),
            "stderr": os.fdopen(stderr_reader, "rb", buffering=0),
        }
        try:
            try:
                control, request = GUARD.start(argv, folder, environment, stdout_writer, stderr_writer)
            except OSError as error:
                raise ConnectionError("no guard") from error
            finally:
                os.close(stdout_writer)
                os.close(stderr_writer)
            child = cls(control, outputs)
            await child._begin(request, argv[0], folder)
        except BaseException:
            for pipe in outputs.values():
                pipe.close()
            raise
        return child

    async def _begin(self, request: bytes, program: str, folder: Path) -> None:
        """Send the request to the keeper, and wait until it reports that the program runs or cannot start."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._control, request)
            report = b""
            while not report.partition(b"\n")[1]:
                data = await loop.sock_recv(self._control, REPORT_BYTES)
                if not data:
                    raise ConnectionError("the keeper has ended")
                report += data
            first_line, _, self._unread = report.partition(b"\n")
            if first_line[:1] == b"e":
                error_number, _, step = first_line[1:].decode().partition(" ")
                failed_path = str(folder) if step == "folder" else program
                raise OSError(int(error_number), os.strerror(int(error_number)), failed_path)
        except BaseException:
            self._control.close()
            raise
        self.pid, self.keeper = map(int, first_line[1:].split())

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call a function once the program has ended."""
        self._end_callback = callback
        asyncio.get_running_loop().add_reader(self._control.fileno(), self._on_readable)
        self._on_data(b"")

    def close(self) -> None:
        """Stop watching the program. The keeper then kills the remaining descendants."""
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()

    def _on_readable(self) -> None:
        """Read the keeper's reports, or handle the end of the keeper."""
        try:
            data = self._control.recv(REPORT_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:
            data = b""
        if data:
            self._on_data(data)
            return
        self.close()
        if self.code is None:  # the keeper was killed, and the guard kills its programs
            self.code = -signal.SIGKILL
            self._end_callback()

    def _on_data(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        if b"!" in lines:  # checked first, because the callback reads `is_empty`
            self.is_empty = True
        for line in lines:
            if line[:1] == b"-":
                self.code = int(line[1:])
                self._end_callback()


class DirectChild:
    """A program that is a child of this process. Like a `KeeperChild`, but its orphans are not adopted."""

    def __init__(self, argv: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        """Start the program. Raises: OSError if it cannot be started."""
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

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal, or None while it runs."""
        return self._popen.poll()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call a function once the program has ended."""
        loop = asyncio.get_running_loop()

        def wait() -> None:
            self._popen.wait()
            call_soon_safely(loop, callback)

        Thread(target=wait, name="program", daemon=True).start()

    def close(self) -> None:
        """Do nothing, because no resources are held."""


Child = KeeperChild | DirectChild
