"""Deadlines of calls, and messages that are sent without waiting for their arrival."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from mcpdesk.errors import CallError, CallTimeout

FAREWELL_S = 2.0
"""Seconds that ending a session, or a message without a reply, may take."""


class CallDeadline:
    """The time limit of a call. It can be stopped while a question is answered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limit = asyncio.timeout(seconds)
        self._is_over = False
        """Whether the call is, and its limit cannot be moved any more."""
        self._questions = 0
        self._left_s = 0.0

    @asynccontextmanager
    async def enforced(self, what: str) -> AsyncIterator[None]:
        """Run the block within the time. Raises: CallTimeout when it is over."""
        try:
            async with self._limit:
                try:
                    yield
                finally:
                    self._is_over = True
        except TimeoutError:
            if not self._limit.expired():
                raise
            raise CallTimeout(f"{what}: no answer within {self.seconds:g} s") from None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let no time pass for the call while the block runs; several blocks may overlap."""
        loop = asyncio.get_running_loop()
        when = self._limit.when()
        if self._questions == 0 and when is not None and self._can_move:
            self._left_s = when - loop.time()
            self._limit.reschedule(None)
        self._questions += 1
        try:
            yield
        finally:
            self._questions -= 1
            if self._questions == 0 and self._can_move:
                self._limit.reschedule(loop.time() + self._left_s)

    @property
    def _can_move(self) -> bool:
        return not (self._is_over or self._limit.expired())


class Farewells:
    """Messages sent in the background, such as cancellations: failures are ignored."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send one; it does not matter whether it arrives."""
        task = asyncio.get_running_loop().create_task(within(FAREWELL_S, send))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """Wait for what is still under way."""
        if self._running:
            await asyncio.wait(self._running, timeout=FAREWELL_S)


async def within(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do some work, for so long at most; it does not matter whether it succeeds."""
    with suppress(CallError, TimeoutError):
        async with asyncio.timeout(seconds):
            await work()
