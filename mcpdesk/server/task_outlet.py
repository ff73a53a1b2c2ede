"""Where a task of the core design is heard: by whoever waits for its result, else beside all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mcpdesk.protocol.outlet import Outlet


class TaskOutlet:
    """Its request is answered already, so what its handler sends has no stream of its own. Source: WIRE 8.

    `push` takes messages that belong to no request.
    """

    may_send = must_drain = True

    def __init__(self, push: Callable[[bytes], None]) -> None:
        self._push = push
        self._waiting: list[Outlet] = []

    def send(self, message: bytes) -> None:
        """Send on one stream only."""
        if self._waiting:
            self._waiting[-1].send(message)
        else:
            self._push(message)

    def series(self, before: bytes, after: bytes) -> None:
        """Who listens may change with every message."""

    async def drain(self) -> None:
        """Wait until whoever listens has taken enough."""
        if self._waiting:
            await self._waiting[-1].drain()
        else:
            await asyncio.sleep(0)

    def keep_alive(self) -> None:
        """Whoever waits shows life on its own."""

    async def let_go(self, retry_ms: int) -> bool:
        """There is no connection to close."""
        return False

    @contextmanager
    def through(self, outlet: Outlet) -> Iterator[None]:
        """Send on the stream of a request while it waits for the result, if it takes messages."""
        if not outlet.may_send:
            yield
            return
        self._waiting.append(outlet)
        try:
            yield
        finally:
            self._waiting.remove(outlet)
