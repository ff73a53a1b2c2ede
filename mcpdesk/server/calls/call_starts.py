"""Pace at which calls begin, so that the loop serves others while many calls come at one time.

A handler runs on the loop until it first awaits. Forty that each take 50 ms to make a large result would keep
the loop for two seconds if all began in one round of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

ROUND_S = 0.02
"""Time for which calls may begin at once; after it the loop must serve other work first."""
MOST_AT_ONCE = 64
"""Maximum number of calls that begin in one round of the loop."""
FREE_ROUNDS = 8
"""Rounds without a new call after a slow round. The loop accepts and answers requests in them."""


class CallStarts:
    """Starts calls in the order of their arrival. Used on one loop."""

    def __init__(self, woke: Callable[[], float] = lambda: float("-inf")) -> None:
        """`woke` returns the monotonic time at which the loop's current round began, if it is observed."""
        self._woke = woke
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._released = 0
        """Number of calls that may begin but have not begun yet."""
        self._turned = float("-inf")
        """Time at which a waiting call last saw that the loop had served other work."""
        self._batch = 1
        """Number of calls that begin in the next round."""
        self._free_rounds = 0
        self._is_turning = False

    def may_begin(self) -> bool:
        """Return True if a call may begin at once; otherwise it must await `turn`."""
        if self._waiting or self._released:
            return False
        now = monotonic()
        return now - self._woke() < ROUND_S or now - self._turned < ROUND_S

    async def turn(self) -> None:
        """Wait until the loop has served other work."""
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
        """Release calls in each round of the loop. Their number doubles while rounds are short.

        `before` is the time at which the round began, 0 for a round without a new call.
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
        self._batch = min(2 * self._batch, MOST_AT_ONCE)
        self._is_turning = bool(self._waiting)
        if self._is_turning:
            loop.call_soon(self._turn, loop, now)
        else:
            self._batch = 1
