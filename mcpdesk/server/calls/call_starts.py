"""Limit for the number of calls that begin together, so that other work on the loop is not delayed.

A handler runs on the loop until it first awaits. If forty handlers that each need 50 ms for a large result
began in one turn of the loop, they would block the loop for two seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

ROUND_S = 0.02
"""Seconds for which calls may begin before the loop must do other work."""
MAX_AT_ONCE = 64
"""Maximum number of calls that begin in one turn of the loop."""
FREE_ROUNDS = 8
"""After a slow turn of the loop, no call begins for this number of turns, so that the loop can handle
requests.
"""


class CallStarts:
    """Starts calls in their order of arrival. Use it on one loop."""

    def __init__(self, woke: Callable[[], float] = lambda: float("-inf")) -> None:
        """`woke` returns the monotonic time when the current turn of the loop began, if it is known."""
        self._woke = woke
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._released = 0
        """Number of calls that may begin but have not begun."""
        self._turned = float("-inf")
        """Monotonic time when `_turn` ran last, after the loop had done other work."""
        self._batch = 1
        """Number of calls that begin in the next turn."""
        self._free_rounds = 0
        self._is_turning = False

    def may_begin(self) -> bool:
        """Return True if a call may begin at once. If not, the call must await `turn`."""
        if self._waiting or self._released:
            return False
        now = monotonic()
        return now - self._woke() < ROUND_S or now - self._turned < ROUND_S

    async def turn(self) -> None:
        """Wait until the loop has done other work."""
        loop = asyncio.get_running_loop()
        released = loop.create_future()
        self._waiting.append(released)
        if not self._is_turning:
            self._is_turning = True
            loop.call_soon(self._turn, loop, monotonic())
        try:
            await released
        finally:
            if released.done() and not released.cancelled():
                self._released -= 1

    def _turn(self, loop: asyncio.AbstractEventLoop, before: float) -> None:
        """Let more calls begin in each turn of the loop. Their number doubles while turns are short.

        `before` is the time when the turn began, or 0 if no call could begin in that turn.
        """
        self._turned = now = monotonic()
        if before and now - before > ROUND_S:
            self._batch, self._free_rounds = 1, FREE_ROUNDS
        if self._free_rounds:
            self._free_rounds -= 1
            loop.call_soon(self._turn, loop, 0.0)
            return
        room = self._batch
        while self._waiting and room:
            released = self._waiting.popleft()
            if not released.done():
                released.set_result(None)
                self._released += 1
                room -= 1
        self._batch = min(2 * self._batch, MAX_AT_ONCE)
        self._is_turning = bool(self._waiting)
        if self._is_turning:
            loop.call_soon(self._turn, loop, now)
        else:
            self._batch = 1
