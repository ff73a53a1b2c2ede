"""A program run to its end, with everything it starts. Nothing of it survives.

Deliberately ignorant of tools and results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from mcpdesk.jobs import family
from mcpdesk.jobs.child import Child, start_child
from mcpdesk.jobs.crossing import later
from mcpdesk.jobs.endings import Endings
from mcpdesk.jobs.guard import GUARD
from mcpdesk.jobs.output import Output, Stream
from mcpdesk.jobs.priority import stand_back
from mcpdesk.jobs.supervisor import SUPERVISOR

EOF_GRACE_S = 0.5
"""How long output of a finished program's helpers is waited for before they are ended."""
BRIEF_S = 0.25
"""No system gives out all its process numbers in this time."""
CHUNK = 65_536

ENDINGS = Endings()
"""Of all programs."""


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


Report = Callable[[Ended | BaseException], None]


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
    process = Process(argv, folder, environment, output, timeout_s)
    process.start(partial(later, loop, partial(_settle, done)))
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
    """One program and its family. Lives on the supervisor's thread; any may `start` and `stop` it."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: dict[str, str],
        output: Output,
        timeout_s: float | None = None,
        begun: Callable[[], None] = lambda: None,
        stands_back: bool = False,
    ) -> None:
        """`begun` is called on the supervisor's thread once the program runs.

        With `stands_back` it gets the processor after everybody else.
        """
        self.pid = 0
        """Its number, and that of its group and session; 0 until it runs."""
        self._begun = begun
        self._argv, self._folder, self._environment = list(argv), folder, environment
        self._output = output
        self._timeout_s = timeout_s
        self._stands_back = stands_back
        self._is_stopped = False
        self._over, self._silent = asyncio.Event(), asyncio.Event()
        """It has ended or shall end; its pipes are closed, or nobody waits for that any longer."""
        self._pipes: dict[int, IO[bytes]] = {}
        self._child: Child | None = None

    def start(self, report: Report) -> None:
        """Run it to the end, then report that, or the error that kept it from starting."""
        SUPERVISOR.run(self._live(), report)

    def stop(self) -> None:
        """End it, whatever it does. Harmless when it has ended."""
        SUPERVISOR.call(self._stop)

    def _stop(self) -> None:
        self._is_stopped = True
        self._over.set()
        self._silent.set()

    async def _live(self) -> Ended:
        try:
            return await self._run()
        finally:
            self._close()

    async def _run(self) -> Ended:
        mark = GUARD.mark()
        started = time.monotonic()
        child = self._child = await start_child(
            self._argv, self._folder, family.marked(self._environment, mark)
        )
        self.pid = child.pid
        GUARD.watch(child.pid)
        self._begun()
        yielding_aio = asyncio.create_task(stand_back(child.pid)) if self._stands_back else None
        ended = await self._follow(child, mark, started)
        if yielding_aio is not None:
            yielding_aio.cancel()
        GUARD.release(child.pid)
        return ended

    async def _follow(self, child: Child, mark: str, started: float) -> Ended:
        self._listen(child)
        await _within(self._timeout_s, self._over)
        finished = child.code is not None
        duration_s = time.monotonic() - started
        if finished:
            await _within(EOF_GRACE_S, self._silent)
        left_over = await self._end_family(child, mark, started)
        if self._pipes:
            self._silent.clear()
            await _within(EOF_GRACE_S, self._silent)
        if child.code is None:
            await _within(EOF_GRACE_S, self._over)
        return Ended(
            exit_code=_shell_code(child.code),
            duration_s=duration_s if finished else time.monotonic() - started,
            timed_out=not finished and not self._is_stopped,
            stopped=not finished and self._is_stopped,
            left_over=left_over if finished else 0,
        )

    async def _end_family(self, child: Child, mark: str, started: float) -> int:
        is_brief = child.code is not None and time.monotonic() - started < BRIEF_S
        if child.is_empty or (is_brief and family.is_surely_alone(child.pid, mark)):
            return 0
        if child.code is None:
            self._over.clear()
        return await ENDINGS.end(child.pid, mark, child.keeper)

    def _listen(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        for stream, pipe in child.outputs.items():
            self._pipes[pipe.fileno()] = pipe
            loop.add_reader(pipe.fileno(), self._read, stream, pipe.fileno())
        child.tell_end(self._over.set)

    def _read(self, stream: Stream, descriptor: int) -> None:
        data = os.read(descriptor, CHUNK)
        if data:
            self._output.add(stream, data)
            SUPERVISOR.took(len(data))
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
    """Wait for an event, but not longer than that."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _shell_code(returncode: int | None) -> int:
    """None, for a program that even KILL does not reach, counts as killed."""
    if returncode is None:
        return 128 + signal.SIGKILL
    return returncode if returncode >= 0 else 128 - returncode
