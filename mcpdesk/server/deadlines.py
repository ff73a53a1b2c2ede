"""Time limits of running calls: one timer for all of them, so that a quick call costs none.

A call's deadline is checked every `SWEEP_S`, so it may overrun by that much.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mcpdesk.server.call import Call

SWEEP_S = 0.05
TIMED_OUT = "timed out"
STOPPED = "the server is stopping"
HEED_S = 0.5
"""How long a stop waits for calls that go on though they were ended."""
TURNS = 10
"""Of the loop, in which an answer gets from a handler's end to its connection."""


class Deadlines:
    """Calls with a limit. Used on the core's loop only."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None
        """Set when the last call is over, once the server stops."""

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def watch(self, call: Call, limit_s: float, deadline: float | None = None) -> None:
        """End the call once it has run for `limit_s` seconds, or at a deadline that was set before."""
        call.limit_s = limit_s
        if not call.pauses:
            call.deadline = time.monotonic() + limit_s if deadline is None else deadline
        self._calls[id(call)] = call
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    @staticmethod
    def note_overrun(call: Call) -> bool:
        """Whether a handler that just ended was over its time: it held up the loop, so nothing could end it.

        The call counts as timed out then.
        """
        if call.stop or call.deadline is None or time.monotonic() < call.deadline:
            return False
        call.stop = TIMED_OUT
        return True

    def forget(self, call: Call) -> None:
        """The call is over."""
        self._calls.pop(id(call), None)
        if self._emptied is not None and not self._calls:
            self._emptied.set()

    async def stop(self) -> None:
        """The server stops: end every call with an answer that says so, and wait until those have left."""
        waiting = [call for call in self if not call.stop]
        if not waiting:
            return
        self._emptied = asyncio.Event()
        for call in waiting:
            call.end(STOPPED)
        with suppress(TimeoutError):
            async with asyncio.timeout(HEED_S):
                await self._emptied.wait()
        for _ in range(TURNS):
            await asyncio.sleep(0)

    @contextmanager
    def paused(self, call: Call) -> Iterator[None]:
        """Time spent in here does not count: a person is being waited for. May be entered several times."""
        if call.deadline is not None:
            call.left_s, call.deadline = call.deadline - time.monotonic(), None
        elif not call.pauses:
            call.left_s = call.limit_s
        call.pauses += 1
        try:
            yield
        finally:
            call.pauses -= 1
            if not call.pauses:
                call.deadline = time.monotonic() + call.left_s

    def _sweep(self) -> None:
        now = time.monotonic()
        for call in self:
            if call.deadline is not None and call.deadline <= now:
                call.end(TIMED_OUT)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._calls else None
