"""Runs programs to their end. When a program ends, all processes that it started are ended, too.

This module does not depend on tools or results.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from mcpdesk.jobs.child import GUARD, Child, start_child
from mcpdesk.jobs.output import Output, Stream
from mcpdesk.jobs.process_table import (
    Family,
    ProcessRow,
    has_family_ended,
    living,
    members,
    signal_all,
    with_mark,
)
from mcpdesk.jobs.schedule import call_soon_safely

T = TypeVar("T")

REST_PER_PIPE_S = 10e-6
"""Seconds for each open pipe that the supervisor's loop pauses before it waits for events."""
MAX_BYTES_PER_S = 400e6
"""Maximum number of bytes per second that are read from all programs together."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.0005, 0.005
"""Shortest and longest pause in seconds. A shorter pause is not made, but added to the next one."""
QUIT_S = 2.0
"""Seconds that `Supervisor.close` waits for the thread to end."""


class Supervisor:
    """The one thread that follows all programs: it reads their output, detects their end, and kills them.

    The thread has its own event loop, so that neither a flood of output nor a slow disk delays responses. The
    thread starts with the first coroutine. Safe on any thread.
    """

    def __init__(self) -> None:
        self._selector = _PausingSelector()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._end_event = asyncio.Event()
        self._asyncio_tasks: set[asyncio.Task[Any]] = set()

    def run(self, coroutine: Coroutine[Any, Any, T], report: Callable[[T | BaseException], None]) -> None:
        """Run a coroutine, then call `report` on the supervisor's thread with its result or exception."""
        self.call(lambda: self._start(coroutine, report))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function soon, on the supervisor's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, because the process ends
            self._started_loop().call_soon_threadsafe(function)

    def throttle(self, size: int) -> None:
        """Lengthen the next pause by the time in which `size` bytes may be read at `MAX_BYTES_PER_S`.

        Called on the supervisor's thread.
        """
        self._selector.pending_pause_s += size / MAX_BYTES_PER_S

    def close(self) -> None:
        """End the thread; programs continue."""
        with self._lock:
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end_event.set)
            thread.join(QUIT_S)

    def _started_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.SelectorEventLoop(self._selector)
                self._thread = threading.Thread(
                    target=self._run_loop, args=(self._loop,), name="programs", daemon=True
                )
                self._thread.start()
            return self._loop

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._wait_for_end())

    async def _wait_for_end(self) -> None:
        await self._end_event.wait()

    def _start(self, coroutine: Coroutine[Any, Any, T], report: Callable[[T | BaseException], None]) -> None:
        asyncio_task = asyncio.ensure_future(coroutine)
        self._asyncio_tasks.add(asyncio_task)
        asyncio_task.add_done_callback(lambda done: self._on_task_end(done, report))

    def _on_task_end(
        self, asyncio_task: asyncio.Task[T], report: Callable[[T | BaseException], None]
    ) -> None:
        self._asyncio_tasks.discard(asyncio_task)
        if not asyncio_task.cancelled():
            report(asyncio_task.exception() or asyncio_task.result())


class _PausingSelector(selectors.DefaultSelector):
    """Selector that pauses before it waits for events, so that many small writes are read in fewer pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pending_pause_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            pause_s = self.pending_pause_s + REST_PER_PIPE_S * len(self.get_map())
            if pause_s >= MIN_PAUSE_S:
                self.pending_pause_s = 0.0
                pause_s = min(pause_s, MAX_PAUSE_S, timeout or MAX_PAUSE_S)
                time.sleep(pause_s)
                timeout = None if timeout is None else timeout - pause_s
        return super().select(timeout)


SUPERVISOR = Supervisor()
"""Supervisor of this process."""
atexit.register(SUPERVISOR.close)


LOWEST_PRIORITY = 19
"""Lowest priority. With normal priority, Linux would give each session an equal share of the processor."""
PRIORITY_RETRY_S = 0.11
"""Pause between attempts to lower a priority. Linux allows a user to change sessions only ten times per
second.
"""
_priority_lock = asyncio.Lock()

EOF_GRACE_S = 0.5
"""Seconds for which the remaining processes of a program may still write output after the program has ended.
Then they are ended.
"""
PID_REUSE_S = 0.25
"""Seconds within which no operating system uses the number of an ended process again."""
READ_BYTES = 65_536

TERM_GRACE_S = 2.0
"""Seconds between TERM and KILL."""
KILL_GRACE_S = 0.5
MAX_KILLS = 10
"""Maximum number of times that KILL is sent. Once is not enough if processes fork in the meantime."""
MIN_CHECK_PAUSE_S, MAX_CHECK_PAUSE_S = 0.002, 0.03
"""First and longest pause between checks whether signalled processes have ended."""


class FamilyReaper:
    """Ends all processes of a job (a `Family`). It sends TERM, and then KILL until no process of the family
    runs.

    Used on the supervisor's loop. The list of all processes is read once for all families. Reading it blocks
    the loop, so the pause before the next read is at least as long as the last read.
    """

    def __init__(self) -> None:
        self._requests: dict[int, Family] = {}
        """Families for the next read of all processes, by leader."""
        self._read_task: asyncio.Task[dict[int, list[ProcessRow]]] | None = None
        self._next_read = 0.0
        """Earliest monotonic time of the next read."""

    async def end(self, leader: int, mark: str, keeper: int = 0) -> int:
        """End a job's family.

        Return the number of its processes that were not already ending by themselves.
        """
        family = Family(mark, keeper)
        initial_members = remaining = await self._members(leader, family)
        await self._signal(remaining, signal.SIGTERM, TERM_GRACE_S)
        for _ in range(MAX_KILLS):
            if not remaining:
                break
            remaining = await self._members(leader, family)
            await self._signal(remaining, signal.SIGKILL, KILL_GRACE_S)
        return sum(not row.is_ending for row in initial_members)

    async def _members(self, leader: int, family: Family) -> list[ProcessRow]:
        self._requests[leader] = family
        if self._read_task is None:
            self._read_task = asyncio.create_task(self._read_families())
        return (await self._read_task)[leader]

    async def _read_families(self) -> dict[int, list[ProcessRow]]:
        """Return the members of all families that were requested before the read begins."""
        await asyncio.sleep(max(0.0, self._next_read - time.monotonic()))
        requests, self._requests, self._read_task = self._requests, {}, None
        start = time.monotonic()
        families = members(requests)
        end = time.monotonic()
        self._next_read = end + (end - start)
        return families

    async def _signal(self, processes: list[ProcessRow], signal_number: int, timeout_s: float) -> None:
        """Send a signal, and wait until the processes have ended, at most `timeout_s` seconds."""
        signal_all(processes, signal_number)
        deadline, pause_s = time.monotonic() + timeout_s, MIN_CHECK_PAUSE_S
        while (processes := living(processes)) and time.monotonic() < deadline:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_CHECK_PAUSE_S)


REAPER = FamilyReaper()
"""Shared instance for the families of all programs."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """Outcome of a program."""

    exit_code: int
    """Exit code as in a shell: 128 + n for a program that died of signal n."""
    duration_s: float
    timed_out: bool = False
    stopped: bool = False
    """True if the program was ended on request."""
    left_over: int = 0
    """Number of processes that still ran after the program and were ended."""


Report = Callable[[ProgramEnd | BaseException], None]


async def run(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: dict[str, str],
    output: Output,
    timeout_s: float | None = None,
) -> ProgramEnd:
    """Run a program and wait for its end. A cancellation first ends the program and its family.

    Raises: OSError if it cannot be started.
    """
    loop = asyncio.get_running_loop()
    program_end: asyncio.Future[ProgramEnd] = loop.create_future()
    program_end.add_done_callback(asyncio.Future.exception)  # avoids a warning if the caller was cancelled
    process = Process(argv, folder, environment, output, timeout_s)
    process.start(partial(call_soon_safely, loop, partial(_resolve, program_end)))
    try:
        return await asyncio.shield(program_end)
    except asyncio.CancelledError:
        process.stop()
        await asyncio.wait({program_end})
        raise


def _resolve(program_end: asyncio.Future[ProgramEnd], outcome: ProgramEnd | BaseException) -> None:
    if program_end.done():
        return
    if isinstance(outcome, ProgramEnd):
        program_end.set_result(outcome)
    else:
        program_end.set_exception(outcome)


class Process:
    """One program and its family.

    Runs on the supervisor's thread; `start` and `stop` are safe on any thread.
    """

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        output: Output,
        timeout_s: float | None = None,
        on_begin: Callable[[], None] = lambda: None,
        low_priority: bool = False,
    ) -> None:
        """`on_begin` is called on the supervisor's thread once the program runs.

        With `low_priority` the program gets only spare processor time.
        """
        self.pid = 0
        """Number of the program's process, group and session, or 0 before the program runs."""
        self._on_begin = on_begin
        self._argv, self._folder, self._environment = list(argv), folder, environment
        self._output = output
        self._timeout_s = timeout_s
        self._low_priority = low_priority
        self._is_stopped = False
        self._finished = asyncio.Event()
        """Set when the program has ended or must end."""
        self._silent = asyncio.Event()
        """Set when the program's pipes are closed, or when it must end at once."""
        self._pipes: dict[int, IO[bytes]] = {}
        self._child: Child | None = None

    def start(self, report: Report) -> None:
        """Run the program to its end, then report its outcome, or the error that prevented its start."""
        SUPERVISOR.run(self._run_and_close(), report)

    def stop(self) -> None:
        """End the program. No effect if it has ended."""
        SUPERVISOR.call(self._stop)

    def _stop(self) -> None:
        self._is_stopped = True
        self._finished.set()
        self._silent.set()

    async def _run_and_close(self) -> ProgramEnd:
        try:
            return await self._run()
        finally:
            self._close()

    async def _run(self) -> ProgramEnd:
        """Start the program, follow it to its end, and return its outcome."""
        mark = GUARD.new_mark()
        started = time.monotonic()
        child = self._child = await start_child(self._argv, self._folder, with_mark(self._environment, mark))
        self.pid = child.pid
        GUARD.watch(child.pid)
        self._on_begin()
        priority_task = asyncio.create_task(lower_priority(child.pid)) if self._low_priority else None
        program_end = await self._follow(child, mark, started)
        if priority_task is not None:
            priority_task.cancel()
        GUARD.release(child.pid)
        return program_end

    async def _follow(self, child: Child, mark: str, started: float) -> ProgramEnd:
        """Wait for the end of the program, end its family, and read the rest of its output."""
        self._listen(child)
        await _within(self._timeout_s, self._finished)
        ended_by_itself = child.code is not None
        duration_s = time.monotonic() - started
        if ended_by_itself:
            await _within(EOF_GRACE_S, self._silent)
        left_over = await self._end_family(child, mark, started)
        if self._pipes:
            self._silent.clear()
            await _within(EOF_GRACE_S, self._silent)
        if child.code is None:
            await _within(EOF_GRACE_S, self._finished)
        return ProgramEnd(
            exit_code=_shell_code(child.code),
            duration_s=duration_s if ended_by_itself else time.monotonic() - started,
            timed_out=not ended_by_itself and not self._is_stopped,
            stopped=not ended_by_itself and self._is_stopped,
            left_over=left_over if ended_by_itself else 0,
        )

    async def _end_family(self, child: Child, mark: str, started: float) -> int:
        is_brief = child.code is not None and time.monotonic() - started < PID_REUSE_S
        if child.is_empty or (is_brief and has_family_ended(child.pid, mark)):
            return 0
        if child.code is None:
            self._finished.clear()
        return await REAPER.end(child.pid, mark, child.keeper)

    def _listen(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        for stream, pipe in child.outputs.items():
            self._pipes[pipe.fileno()] = pipe
            loop.add_reader(pipe.fileno(), self._read, stream, pipe.fileno())
        child.on_end(self._finished.set)

    def _read(self, stream: Stream, descriptor: int) -> None:
        """Read from a pipe that is readable, or close the pipe at its end."""
        data = os.read(descriptor, READ_BYTES)
        if data:
            self._output.add(stream, data)
            SUPERVISOR.throttle(len(data))
            return
        asyncio.get_running_loop().remove_reader(descriptor)
        self._pipes.pop(descriptor).close()
        if not self._pipes:
            self._silent.set()

    def _close(self) -> None:
        for descriptor, pipe in self._pipes.items():
            asyncio.get_running_loop().remove_reader(descriptor)
            pipe.close()
        self._pipes.clear()
        if self._child is not None:
            self._child.close()
        self._output.close()


async def _within(seconds: float | None, event: asyncio.Event) -> None:
    """Wait for an event, at most `seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _shell_code(returncode: int | None) -> int:
    """Return the exit code as in a shell. If the program has survived KILL, `returncode` is None, and the
    result is the code of a killed program.
    """
    if returncode is None:
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode


async def lower_priority(leader: int) -> None:
    """Lower the priority of a program that leads its session, and of its descendants, if allowed.

    Used on the supervisor's loop.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, leader, LOWEST_PRIORITY)
    async with _priority_lock:
        while True:
            if _lower_session_priority(leader):
                return
            await asyncio.sleep(PRIORITY_RETRY_S)


def _lower_session_priority(leader: int) -> bool:
    """Lower the priority of the whole session on Linux, which otherwise gives every session the same share.

    Return False if the system requires a later attempt.
    """
    try:
        Path(f"/proc/{leader}/autogroup").write_text(str(LOWEST_PRIORITY))
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


UNSURE_ORDER = "[stdout and stderr are two pipes: their lines may be out of order]"
"""Remark on output of both streams, because pipes have no common clock."""


def end_remarks(program_end: ProgramEnd, output: Output, timeout_ms: float) -> list[str]:
    """Return lines about the outcome that the output itself does not show."""
    notes = {
        f"[timed out after {timeout_ms:g} ms and was ended]": program_end.timed_out,
        f"[exit code {program_end.exit_code}]": program_end.exit_code != 0,
        f"[{program_end.left_over} still running in the background, ended]": program_end.left_over > 0,
        f"[{output.problem}]": bool(output.problem),
        UNSURE_ORDER: output.has_both_streams,
    }
    return [note for note, applies in notes.items() if applies]


class ProgramReport(NamedTuple):
    """Report of a program's outcome as text and as structured content, both limited in size."""

    text: str
    fields: dict[str, Any]


def report_end(
    program_end: ProgramEnd, output: Output, notes: Sequence[str], max_chars: int
) -> ProgramReport:
    """Report a program's outcome and output in at most `max_chars` characters. The text ends with `notes`."""
    output_chars = max(0, max_chars - sum(len(note) + 1 for note in notes))
    fields = {
        "exit_code": program_end.exit_code,
        "duration_ms": round(program_end.duration_s * 1000),
        "stdout": output.stream("stdout", max_chars),
        "stderr": output.stream("stderr", max_chars),
        "truncated": output.is_longer(output_chars),
        "timed_out": program_end.timed_out,
    }
    text = "\n".join([output.text(output_chars).removesuffix("\n") or "(no output)", *notes])
    return ProgramReport(text, fields)
