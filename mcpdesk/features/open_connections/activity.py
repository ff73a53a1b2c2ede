"""Use of an open connection, and the time when it ends without use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

MAX_CHECK_PERIOD_S = 5.0
"""Maximum seconds between two checks for use that is not reported, such as an attached screen."""


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

    def note(self) -> None:
        """Note that the connection is used now."""
        self._last_use = time.monotonic()

    def join(self) -> None:
        """Note that a command has connected."""
        self.clients += 1
        self.note()

    def leave(self) -> None:
        """Note that a command has disconnected."""
        self.clients -= 1
        self.note()

    async def until_idle(self, limit_s: float, is_used: Callable[[], bool]) -> None:
        """Wait until the connection was not used for `limit_s` seconds. `is_used` reports any other use."""
        while True:
            if is_used():
                self.note()
            if (left_s := limit_s - self.idle_s) <= 0:
                return
            await asyncio.sleep(min(left_s, MAX_CHECK_PERIOD_S))
