"""Programs that continue after the call that started them.

The programs are numbered, write to files, and end with the server.

They run with low priority, because the screen and the programs of waiting callers are more important. Used on
one loop, except `all` and `usage`, which are safe on any thread.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path

from mcpdesk.jobs.output import MAX_NOTE_LENGTH, Output
from mcpdesk.jobs.output_budget import OutputBudget
from mcpdesk.jobs.process import SUPERVISOR, Process, ProgramEnd
from mcpdesk.jobs.process_table import Usage, usage_of
from mcpdesk.jobs.schedule import call_soon_safely

MAX_RUNNING_PROGRAMS = 500
"""Maximum number of programs at a time, so that a looping client cannot exhaust the machine."""
MAX_ENDED_PROGRAMS = 200
"""Number of ended programs whose output is kept."""
CLOSE_TIMEOUT_S = 5.0
"""Maximum time that `close` waits for programs to end."""


class ProgramState(StrEnum):
    """State of a program. All states except `RUNNING` are final."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Ended with an exit code other than 0."""
    KILLED = "killed"
    """Ended on request."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a program's output."""

    text: str
    end: int
    """Bytes read so far, including this piece."""
    has_more: bool
    """True if more output can be read now."""
    is_last: bool
    """True if no more output will follow."""
    omitted_bytes: int = 0
    """Bytes before `end` that are not in the text."""


@dataclass(eq=False, slots=True)
class Program:
    """One program: its process, its output and its outcome. Times are Unix seconds."""

    id: int
    command: str
    peer: str
    """Peer that started the program."""
    process: Process
    output: Output
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the program has ended."""
    started: float = field(default_factory=time.time)
    ended_at: float | None = None
    """Time of the end, or None while the program runs."""
    ended: ProgramEnd | None = None
    """Outcome, or None while the program runs, or if an error prevented waiting for its end."""
    read_by: dict[str, int] = field(default_factory=dict)
    """Number of bytes that each recent reader has read, by reader."""
    traceparent: str = ""
    """Trace span where the program was started, or "" if calls are not traced."""
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a piece is read, so that two concurrent calls get different pieces."""

    @property
    def state(self) -> ProgramState:
        if not self.over.is_set():
            return ProgramState.RUNNING
        if self.ended is None or self.ended.stopped:
            return ProgramState.KILLED
        return ProgramState.FAILED if self.ended.exit_code else ProgramState.SUCCEEDED

    @property
    def exit_code(self) -> int | None:
        """Exit code, or None if `ended` is None."""
        return None if self.ended is None else self.ended.exit_code

    @property
    def runtime_s(self) -> float:
        """Seconds from the start of the program to its end, or until now if it still runs."""
        return (time.time() if self.ended_at is None else self.ended_at) - self.started

    def piece(self, start: int, limit: int) -> Piece:
        """Return at most `limit` bytes of output from byte `start` on. An incomplete character at the end is
        left out.

        Reads a file. Raises: OSError if the file cannot be read.
        """
        is_over = self.over.is_set()
        data = self.output.read(start, limit)
        is_full = len(data) == limit
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=is_over and not is_full)
        unfinished, _ = decoder.getstate()
        end = start + len(data) - len(unfinished)
        has_more = is_full and self.output.written > end
        return Piece(text, end, has_more, is_last=is_over and not has_more)

    def unread(self, start: int, max_bytes: int) -> Piece:
        """Return all output from byte `start` on. If it is longer than `max_bytes` bytes, omit the middle.

        Raises: OSError if the file cannot be read.
        """
        output, is_over = self.output, self.over.is_set()
        end = output.size if output.problem else output.written
        if not output.problem and end - start <= max_bytes:
            return self.piece(start, max_bytes)
        half = max(0, max_bytes - MAX_NOTE_LENGTH) // 2
        head = self.piece(start, half)
        tail = ""
        tail_bytes = max(0, min(half, end - head.end))
        if tail_bytes and output.problem:  # the file lacks the latest output, part of which is in memory
            tail = output.end(tail_bytes)
        elif tail_bytes:
            last_piece = self.piece(end - tail_bytes, tail_bytes)
            tail, end = last_piece.text.lstrip("\ufffd"), last_piece.end
        omitted_bytes = max(0, end - start - len(head.text.encode()) - len(tail.encode()))
        note = f"\n[... {omitted_bytes:,} bytes left out ...]\n" if omitted_bytes else ""
        return Piece(
            f"{head.text}{note}{tail}",
            max(head.end, end),
            has_more=False,
            is_last=is_over,
            omitted_bytes=omitted_bytes,
        )


class Programs:
    """Programs of one server. `folder` contains their output files. `on_over` is called when a program ends.

    The programs are numbered from `first` on. `budget` is the disk space that all output files share.
    """

    def __init__(
        self,
        folder: Path,
        on_over: Callable[[Program], None] = lambda program: None,
        first: int = 1,
        budget: OutputBudget | None = None,
    ) -> None:
        self.version = 0
        """Counter that increases when a program starts or ends."""
        self._folder = folder
        self._on_over = on_over
        self._budget = budget
        self._programs: dict[int, Program] = {}
        self._running: dict[int, Program] = {}
        self._first = first
        self._numbers = count(first)
        self._is_closed = False
        self._openings: set[asyncio.Future[Output]] = set()
        """Output files that are being created."""

    def all(self) -> tuple[Program, ...]:
        """Return all known programs, oldest first. Safe on any thread."""
        return tuple(self._programs.values())

    def get(self, number: int) -> Program | None:
        """Return the program with this number, or None."""
        return self._programs.get(number)

    def usage(self) -> dict[int, Usage]:
        """Return the current usage of each running program's family.

        Takes milliseconds. Safe on any thread.
        """
        running = list(self._running.values())
        leaders = {program.process.pid: program.id for program in running if program.process.pid}
        return {leaders[pid]: usage for pid, usage in usage_of(leaders.keys()).items()}

    async def start(
        self, argv: Sequence[str], command: str, folder: Path, environment: dict[str, str], peer: str
    ) -> Program:
        """Start a program and return when it runs. `command` is the text that represents the program on the
        screen.

        Raises: OSError if it cannot be started; RuntimeError if `MAX_RUNNING_PROGRAMS` programs run already,
        or if the output file cannot be created.
        """
        if self._is_closed:
            raise RuntimeError("the server stops")
        if len(self._running) + len(self._openings) >= MAX_RUNNING_PROGRAMS:
            raise RuntimeError(
                f"{MAX_RUNNING_PROGRAMS} programs are already running, which is the limit; end one first"
            )
        number = next(self._numbers)
        is_first = number == self._first
        output = await self._open_output(number, is_first)
        if self._is_closed:
            SUPERVISOR.call(output.remove)
            raise RuntimeError("the server stops")
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        program: Program
        report_begin = partial(call_soon_safely, loop, lambda: self._on_begin(program, begun))
        process = Process(argv, folder, environment, output, on_begin=report_begin, low_priority=True)
        program = Program(number, command, peer, process, output)
        program.traceparent = environment.get("TRACEPARENT", "")
        self._running[number] = program
        process.start(partial(call_soon_safely, loop, partial(self._on_end, program, begun)))
        try:
            await begun
        except asyncio.CancelledError:
            process.stop()
            raise
        return program

    async def _open_output(self, number: int, is_first: bool) -> Output:
        """Create the file of a program's output. Raises: RuntimeError."""
        opening = asyncio.ensure_future(
            asyncio.to_thread(_create_output, self._folder, number, is_first, self._budget)
        )
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_remove_opened)
            raise

    async def kill(self, program: Program) -> None:
        """End a program with everything it started, and return when all its processes have ended."""
        program.process.stop()
        await program.over.wait()

    async def close(self) -> None:
        """End all programs and delete their output files."""
        self._is_closed = True
        running = list(self._running.values())
        for program in running:
            program.process.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for program in running:
                    await program.over.wait()
        if self._openings:
            await asyncio.wait(self._openings)
        outputs = [program.output for program in self._programs.values()]
        self._programs.clear()
        await asyncio.to_thread(_remove_all, outputs)

    def _on_begin(self, program: Program, begun: asyncio.Future[None]) -> None:
        self._programs[program.id] = program
        self.version += 1
        if not begun.done():
            begun.set_result(None)

    def _on_end(
        self, program: Program, begun: asyncio.Future[None], outcome: ProgramEnd | BaseException
    ) -> None:
        """Store the outcome of a program, and delete the output of the oldest ended programs."""
        self._running.pop(program.id, None)
        program.ended_at = time.time()
        if isinstance(outcome, ProgramEnd):
            program.ended = outcome
        program.over.set()
        if program.id not in self._programs:  # it could not be started, or the server stops
            SUPERVISOR.call(program.output.remove)
            if not begun.done() and not isinstance(outcome, ProgramEnd):
                begun.set_exception(outcome)
            return
        self.version += 1
        self._on_over(program)
        ended_numbers = [number for number in self._programs if number not in self._running]
        for number in ended_numbers[: max(0, len(ended_numbers) - MAX_ENDED_PROGRAMS)]:
            self._forget(number)

    def _forget(self, number: int) -> None:
        SUPERVISOR.call(self._programs.pop(number).output.remove)


def _remove_all(outputs: Iterable[Output]) -> None:
    for output in outputs:
        output.remove()


def _remove_opened(opening: asyncio.Future[Output]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        SUPERVISOR.call(opening.result().remove)


def _create_output(folder: Path, number: int, is_first: bool, budget: OutputBudget | None) -> Output:
    try:
        return Output(file=_output_file(folder, number, is_first), budget=budget)
    except OSError as error:
        raise RuntimeError(
            f"a file for its output cannot be created in {folder}: {error.strerror}"
        ) from error


def _output_file(folder: Path, number: int, is_first: bool) -> Path:
    """Return the path of a new output file. With `is_first`, first delete the files that belong to processes
    that have ended.
    """
    for path in folder.glob("program-*.txt") if is_first else ():
        owner = path.name.split("-")[1]
        if owner.isdigit() and int(owner) != os.getpid() and not _is_alive(int(owner)):
            path.unlink(missing_ok=True)
    return folder / f"program-{os.getpid()}-{number}-{time.time_ns()}.txt"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
