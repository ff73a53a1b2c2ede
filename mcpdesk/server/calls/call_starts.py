"""Limit for the number of calls that begin together, so that other work on the loop is not delayed.

A handler runs on the loop until it first awaits. If forty handlers that each need 50 ms for a large result
began in one turn of the loop, they would block the loop for two seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

TURN_S = 0.02
"""Seconds for which calls may begin before the loop must do other work."""
MAX_AT_ONCE = 64
"""Maximum number of calls that begin in one turn of the loop."""
IDLE_TURNS = 8
"""Number of turns after a slow turn in which no call begins, so that the loop can handle requests."""


class CallStarts:
    """Starts calls in their order of arrival. Use it on one loop."""

    def __init__(self, turn_start: Callable[[], float] = lambda: float("-inf")) -> None:
        """`turn_start` returns the monotonic time when the current turn of the loop began, if it is known."""
        self._turn_start = turn_start
        self._permissions: deque[asyncio.Future[None]] = deque()
        """Futures of the calls that wait to begin, oldest first."""
        self._released_count = 0
        """Number of calls that may begin but have not begun."""
        self._last_turn = float("-inf")
        """Monotonic time of the last run of `_run_turn`."""
        self._batch_size = 1
        """Number of calls that begin in the next turn."""
        self._idle_turns = 0
        self._is_turn_scheduled = False

    def may_begin(self) -> bool:
        """Return True if a call may begin at once. If not, the call must await `wait_for_turn`."""
        if self._permissions or self._released_count:
            return False
        now = monotonic()
        return now - self._turn_start() < TURN_S or now - self._last_turn < TURN_S

    async def wait_for_turn(self) -> None:
        """Wait until the loop has done other work."""
        loop = asyncio.get_running_loop()
        permission = loop.create_future()
        self._permissions.append(permission)
        if not self._is_turn_scheduled:
            self._is_turn_scheduled = True
            loop.call_soon(self._run_turn, loop, monotonic())
        try:
            await permission
        finally:
            if permission.done() and not permission.cancelled():
                self._released_count -= 1

    def _run_turn(self, loop: asyncio.AbstractEventLoop, turn_start: float) -> None:
        """Let more calls begin in each turn of the loop. Their number doubles while turns are short.

        `turn_start` is the time when the turn began, or 0 if no call could begin in that turn.
        """
        self._last_turn = now = monotonic()
        if turn_start and now - turn_start > TURN_S:
            self._batch_size, self._idle_turns = 1, IDLE_TURNS
        if self._idle_turns:
            self._idle_turns -= 1
            loop.call_soon(self._run_turn, loop, 0.0)
            return
        remaining = self._batch_size
        while self._permissions and remaining:
            permission = self._permissions.popleft()
            if not permission.done():
                permission.set_result(None)
                self._released_count += 1
                remaining -= 1
        self._batch_size = min(2 * self._batch_size, MAX_AT_ONCE)
        self._is_turn_scheduled = bool(self._permissions)
        if self._is_turn_scheduled:
            loop.call_soon(self._run_turn, loop, now)
        else:
            self._batch_size = 1
