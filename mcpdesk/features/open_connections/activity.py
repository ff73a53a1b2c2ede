"""Use of an open connection, and the time when it ends without use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

MAX_CHECK_PERIOD_S = 5.0
"""Maximum number of seconds between two checks for use that is not reported, such as an attached screen."""


class Activity:
    """Counts the commands that use a connection, and their calls. Use it on the core's loop."""

    def __init__(self) -> None:
        self.calls = 0
        """Number of tool calls."""
        self.clients = 0
        """Number of connected commands."""
        self._last_use = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last use. May be called on any thread."""
        return 0.0 if self.clients else time.monotonic() - self._last_use

    def record_use(self) -> None:
        """Record that the connection is used now."""
        self._last_use = time.monotonic()

    def join(self) -> None:
        """Record that a command has connected."""
        self.clients += 1
        self.record_use()

    def leave(self) -> None:
        """Record that a command has disconnected."""
        self.clients -= 1
        self.record_use()

    async def until_idle(self, limit_s: float, is_used: Callable[[], bool]) -> None:
        """Wait until the connection has not been used for `limit_s` seconds.

        `is_used` returns True while the connection is used in a way that is not recorded.
        """
        while True:
            if is_used():
                self.record_use()
            if (remaining_s := limit_s - self.idle_s) <= 0:
                return
            await asyncio.sleep(min(remaining_s, MAX_CHECK_PERIOD_S))
