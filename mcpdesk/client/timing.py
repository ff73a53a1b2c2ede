"""Deadlines of calls, messages sent in the background, and pauses between renewals of a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from mcpdesk.errors import CallError, CallTimeout, HttpError

CONNECT_TIMEOUT_S = 10.0
"""Maximum seconds for opening a connection."""
CLOSE_TIMEOUT_S = 2.0
"""Maximum seconds for ending a session, and for sending a message in the background."""
RENEW_S = 1.0
"""Pause before a lost session is replaced. It doubles while sessions are lost without an event."""
MAX_PAUSE_S = 30.0
"""Longest pause. A session that lasted for this time is not counted as a failure."""
MAX_RENEWALS = 10
"""Number of consecutive sessions, lost without an event, after which the client gives up."""


class CallDeadline:
    """Time limit of a call. Its clock can be stopped while a question is answered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limit = asyncio.timeout(seconds)
        self._has_ended = False
        """True after the call has ended. The limit can then no longer be rescheduled."""
        self._stops = 0
        """Number of blocks that have stopped the clock."""
        self._remaining_s = 0.0
        """Time that remained when the clock was stopped."""

    @asynccontextmanager
    async def enforced(self, call_name: str) -> AsyncIterator[None]:
        """Run the block within the time limit. Raises: CallTimeout when it expires."""
        try:
            async with self._limit:
                try:
                    yield
                finally:
                    self._has_ended = True
        except TimeoutError:
            if not self._limit.expired():
                raise
            raise CallTimeout(f"{call_name}: no answer within {self.seconds:g} s") from None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock while the block runs. Blocks may overlap."""
        loop = asyncio.get_running_loop()
        end_time = self._limit.when()
        if self._stops == 0 and end_time is not None and self._can_reschedule:
            self._remaining_s = end_time - loop.time()
            self._limit.reschedule(None)
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if self._stops == 0 and self._can_reschedule:
                self._limit.reschedule(loop.time() + self._remaining_s)

    @property
    def _can_reschedule(self) -> bool:
        return not (self._has_ended or self._limit.expired())


class BackgroundMessages:
    """Messages sent in the background, such as cancellations. Failures are ignored."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send a message in the background."""
        task = asyncio.get_running_loop().create_task(within(CLOSE_TIMEOUT_S, send))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """Wait for the messages that are being sent."""
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_TIMEOUT_S)


class RenewalPace:
    """Pauses before the renewals of a session, and their limit, because a server may lose every session."""

    def __init__(self) -> None:
        self._failures = 0
        self._start_time = asyncio.get_running_loop().time()
        """Loop time at which the session began to be used."""

    async def pause(self, error: HttpError, has_received: bool) -> None:
        """Wait before the session is renewed. `has_received` is True if an event arrived in the session.

        Raises: HttpError after too many failures.
        """
        has_lasted = asyncio.get_running_loop().time() - self._start_time >= MAX_PAUSE_S
        self._failures = 0 if has_received or has_lasted else self._failures + 1
        if self._failures == MAX_RENEWALS:
            reason = f"the server lost {MAX_RENEWALS} sessions in succession: {error.message}"
            raise HttpError(reason, status=error.status, body=error.body)
        await asyncio.sleep(min(RENEW_S * 2 ** max(0, self._failures - 1), MAX_PAUSE_S))
        self._start_time = asyncio.get_running_loop().time()


async def within(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Run `work` with a time limit. CallError and a timeout are ignored."""
    with suppress(CallError, TimeoutError):
        async with asyncio.timeout(seconds):
            await work()
