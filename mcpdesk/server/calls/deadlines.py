"""Time limits for hosted code. Whatever the code does, its call ends with a value or an ordinary exception.

`sys.exit()` in a handler ends only that handler. One timer checks all running calls every `SWEEP_S` seconds.
A fast call therefore costs nothing, and a slow one may exceed its limit by up to `SWEEP_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TypeVar

from mcpdesk.errors import ServerStopping
from mcpdesk.server.calls.outcomes import described
from mcpdesk.server.calls.running_call import RUNNING_CALL, Call, WaitTimes

SWEEP_S = 0.05
"""Seconds between two checks of the deadlines of running calls."""
TIMED_OUT = "timed out"
SERVER_STOPPING = "the server is stopping"
ANSWERED_REASONS = (TIMED_OUT, SERVER_STOPPING)
"""Reasons for ending a call whose caller still waits for the response."""
CANCEL_WAIT_S = 0.5
"""Maximum seconds that `stop` waits for calls that continue although they were ended."""
RESPONSE_TURNS = 10
"""Number of loop turns from the end of a handler until its response reaches the connection."""
T = TypeVar("T")


class Deadlines:
    """Runs hosted code within a time limit. Use it only on the core's loop."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._all_ended: asyncio.Event | None = None
        """Event that is set when the last call has ended, or None until the server stops."""
        self._report_count = 0
        """Number of calls whose error is being reported."""

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    async def run(self, work: Awaitable[T], call: Call, limit_s: float) -> T:
        """Await hosted code for at most `limit_s` seconds. Waiting for a person does not count.

        Raises: TimeoutError if the limit is exceeded, or ServerStopping if the server stops, both with the
        traceback of the interrupted code; CancelledError if the call or its task was cancelled from outside;
        any other exception of the hosted code.
        """
        traceback: TracebackType | None = None
        call.limit_s = limit_s
        if not call.pauses:
            call.deadline = time.monotonic() + limit_s
        self._calls[id(call)] = call
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        call.running = call.connection, call.id
        RUNNING_CALL.set(call.running)
        try:
            output = await work
        except BaseException as error:  # hosted code may raise anything, even `SystemExit`
            if call.stop not in ANSWERED_REASONS:
                if isinstance(error, Exception) or _was_cancelled(call, error):
                    raise
                # An exception such as `SystemExit` must end only this call, so it is converted.
                reason = f"it raised {described(error)}"
                raise RuntimeError(reason).with_traceback(error.__traceback__) from None
            traceback = error.__traceback__
        else:
            if not call.stop and call.deadline is not None and time.monotonic() >= call.deadline:
                call.stop = TIMED_OUT  # the call blocked the loop, so the timer could not end the call
            if call.stop not in ANSWERED_REASONS:
                return output
        finally:
            RUNNING_CALL.set(None)
            self._calls.pop(id(call), None)
            if self._all_ended is not None:
                self._check_all_ended(self._all_ended)
        exception = _end_exception(call.stop, limit_s)
        call.continue_after_end()
        try:
            raise exception.with_traceback(traceback)
        finally:
            # A frame that refers to its own traceback stays in memory, with all arguments, until the garbage
            # collector runs.
            del traceback, exception

    async def report(self, work: Awaitable[T]) -> T:
        """Await work of a call after its hosted code has ended. `stop` waits for this work."""
        self._report_count += 1
        try:
            return await work
        finally:
            self._report_count -= 1
            if self._all_ended is not None:
                self._check_all_ended(self._all_ended)

    def _check_all_ended(self, all_ended: asyncio.Event) -> None:
        if not self._calls and not self._report_count:
            all_ended.set()

    async def stop(self) -> None:
        """End every call with a response, and wait until these responses are sent."""
        running_calls = [call for call in self if not call.stop]
        if not running_calls:
            return
        self._all_ended = asyncio.Event()
        for call in running_calls:
            call.end(SERVER_STOPPING)
        with suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_WAIT_S):
                while self._calls or self._report_count:
                    self._all_ended.clear()
                    await self._all_ended.wait()
        for _ in range(RESPONSE_TURNS):
            await asyncio.sleep(0)

    @contextmanager
    def paused(self, call: Call, *, is_client: bool = False) -> Iterator[None]:
        """Stop the clock of a call in this block, while it waits for a person or for the client.

        Blocks may be nested.
        """
        if call.waits is None:
            call.waits = WaitTimes()
        call.waits.change(1, is_client=is_client)
        if call.deadline is not None:
            call.remaining_s, call.deadline = call.deadline - time.monotonic(), None
        elif not call.pauses:
            call.remaining_s = call.limit_s
        call.pauses += 1
        try:
            yield
        finally:
            call.waits.change(-1, is_client=is_client)
            call.pauses -= 1
            if not call.pauses:
                call.deadline = time.monotonic() + call.remaining_s

    def _sweep(self) -> None:
        now = time.monotonic()
        for call in self:
            if call.deadline is not None and call.deadline <= now:
                call.end(TIMED_OUT)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._calls else None


def _end_exception(stop: str, limit_s: float) -> Exception:
    """Return the exception for a call that was ended."""
    if stop == TIMED_OUT:
        return TimeoutError(f"not finished within its limit of {limit_s:g} s")
    return ServerStopping(f"Not finished: {SERVER_STOPPING}. Call again once it is back.")


def _was_cancelled(call: Call, error: BaseException) -> bool:
    """Return True if a call or its task was cancelled from outside."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return bool(call.stop) or (task is not None and task.cancelling() > 0)
