"""A program run to its end in a thread of its own, with everything it starts. Nothing of it survives.

The thread reads both pipes and writes the output file: neither a flood nor a slow disk holds up a loop.
Deliberately ignorant of tools and results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import psutil

from mcpdesk.jobs import family
from mcpdesk.jobs.guard import GUARD
from mcpdesk.jobs.output import Output, Stream

TERM_GRACE_S = 2.0
"""Between TERM and KILL."""
EOF_GRACE_S = 0.5
"""How long output of a finished program's helpers is waited for before they are ended."""
LOOK_S = 0.02
"""How often an end that wakes nobody is looked for."""
KILL_ROUNDS = 10
"""A family that forks while it is being killed needs more than one."""
CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    exit_code: int
    """As a shell has it: 128 + n for one that died of signal n."""
    duration_s: float
    timed_out: bool = False
    stopped: bool = False
    """Ended on request before it finished."""
    left_over: int = 0
    """Processes it had left running when it finished; they were ended."""


async def run(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: dict[str, str],
    output: Output,
    timeout_s: float | None = None,
) -> Ended:
    """Run a program and wait for its end. Cancelling ends it, and returns once nothing of it is left.

    Raises: OSError when it cannot be started.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Ended] = loop.create_future()
    done.add_done_callback(asyncio.Future.exception)  # seen, even if the caller is gone

    def report(outcome: Ended | BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(_settle, done, outcome)

    process = Process(argv, folder, environment, output, timeout_s)
    threading.Thread(target=process.live, args=(report,), name=f"job {argv[0]}", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        process.stop()
        await asyncio.wait({done})
        raise


def _settle(done: asyncio.Future[Ended], outcome: Ended | BaseException) -> None:
    if done.done():
        return
    if isinstance(outcome, Ended):
        done.set_result(outcome)
    else:
        done.set_exception(outcome)


class Process:
    """One program and its family. `live` is its thread; `stop` may be called from any other."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        output: Output,
        timeout_s: float | None,
        begun: Callable[[], None] | None = None,
    ) -> None:
        """`begun` is called on the process's thread once it runs."""
        self.pid = 0
        """Its number, and that of its group and session; 0 until it runs."""
        self._begun = begun
        self._argv, self._folder, self._environment = list(argv), folder, environment
        self._output = output
        self._timeout_s = timeout_s
        self._stop = threading.Event()
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._pipes: dict[int, IO[bytes]] = {}
        self._exit: int | None = None
        """A descriptor that wakes us as the program ends; None later, and without pidfd."""

    def stop(self) -> None:
        """End it, whatever it does. Harmless when it has ended."""
        self._stop.set()
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def live(self, report: Callable[[Ended | BaseException], None]) -> None:
        """Run to the end, then report it, or the error that kept it from starting."""
        try:
            outcome: Ended | BaseException = self._live()
        except Exception as error:
            outcome = error
        finally:
            self._close()
        report(outcome)

    def _live(self) -> Ended:
        mark = GUARD.mark()
        started = time.monotonic()
        child = subprocess.Popen(
            self._argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=family.marked(self._environment, mark),
            start_new_session=True,
        )
        self.pid = child.pid
        GUARD.watch(child.pid)
        if self._begun is not None:
            self._begun()
        try:
            return self._follow(child, mark, started)
        finally:
            GUARD.release(child.pid)

    def _follow(self, child: subprocess.Popen[bytes], mark: str, started: float) -> Ended:
        self._listen(child)
        deadline = float("inf") if self._timeout_s is None else started + self._timeout_s
        self._pump(lambda: child.poll() is not None or self._stop.is_set(), deadline)
        finished = child.returncode is not None
        duration_s = time.monotonic() - started
        if finished:
            self._pump(lambda: not self._pipes or self._stop.is_set(), time.monotonic() + EOF_GRACE_S)
        left_over = self._end_family(child.pid, mark)
        self._pump(lambda: not self._pipes, time.monotonic() + EOF_GRACE_S)
        return Ended(
            exit_code=_shell_code(child.poll()),
            duration_s=duration_s if finished else time.monotonic() - started,
            timed_out=not finished and not self._stop.is_set(),
            stopped=not finished and self._stop.is_set(),
            left_over=left_over if finished else 0,
        )

    def _end_family(self, leader: int, mark: str) -> int:
        """TERM, then KILL until nothing is left; returns how many there were."""
        first = left = family.members(leader, mark)
        self._signal(left, signal.SIGTERM, TERM_GRACE_S)
        for _ in range(KILL_ROUNDS):
            if not left:
                break
            left = family.members(leader, mark)
            self._signal(left, signal.SIGKILL, EOF_GRACE_S)
        return len(first)

    def _signal(self, processes: list[psutil.Process], number: int, patience_s: float) -> None:
        family.signal_all(processes, number)
        self._pump(lambda: not family.living(processes), time.monotonic() + patience_s)

    def _pump(self, until: Callable[[], bool], deadline: float) -> None:
        """Take output until something holds or the time, on the monotonic clock, is up."""
        while not until() and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left, self._look_s)):
                key.data(key.fd)

    @property
    def _look_s(self) -> float:
        return LOOK_S if self._exit is None else 60.0

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, lambda _: self._wake.recv(1))
        pipes: tuple[tuple[Stream, IO[bytes] | None], ...] = (
            ("stdout", child.stdout),
            ("stderr", child.stderr),
        )
        for stream, pipe in pipes:
            assert pipe is not None
            self._pipes[pipe.fileno()] = pipe
            self._selector.register(pipe, selectors.EVENT_READ, partial(self._read, stream))
        with contextlib.suppress(AttributeError, OSError):  # neither every system nor every kernel has it
            self._exit = os.pidfd_open(child.pid)
            self._selector.register(self._exit, selectors.EVENT_READ, self._forget_exit)

    def _read(self, stream: Stream, descriptor: int) -> None:
        data = os.read(descriptor, CHUNK)
        if data:
            self._output.add(stream, data)
        else:
            self._selector.unregister(descriptor)
            self._pipes.pop(descriptor).close()

    def _forget_exit(self, descriptor: int) -> None:
        """The program has ended; from now on nothing wakes us but output."""
        self._selector.unregister(descriptor)
        os.close(descriptor)
        self._exit = None

    def _close(self) -> None:
        self._selector.close()
        for pipe in self._pipes.values():
            pipe.close()
        if self._exit is not None:
            os.close(self._exit)
        self._wake.close()
        self._waker.close()
        self._output.close()


def _shell_code(returncode: int | None) -> int:
    """None, for a program that even KILL does not reach, counts as killed."""
    if returncode is None:
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode
