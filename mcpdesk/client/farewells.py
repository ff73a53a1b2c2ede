"""Messages a client sends when it stops waiting: nobody waits for them, and none takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress

from mcpdesk.errors import CallError

PARTING_S = 2.0
"""How long taking leave may take."""


class Partings:
    """Those of one line that are under way."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, work: Awaitable[object]) -> None:
        """Send one; it does not matter whether it arrives."""
        task = asyncio.get_running_loop().create_task(within_parting(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def end(self) -> None:
        """Wait for what is still under way."""
        if self._running:
            await asyncio.wait(self._running, timeout=PARTING_S)


async def within_parting(work: Awaitable[object]) -> None:
    """Wait for it, but neither long nor for its success."""
    with suppress(CallError, TimeoutError):
        async with asyncio.timeout(PARTING_S):
            await work
