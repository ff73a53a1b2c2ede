"""Lines in which notifications and questions wait for a person, each behind the one before it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from mcpdesk.protocol.outlet import Outlet

MOST_QUEUED = 1_000
"""Messages that wait behind a held one; more than a handler sends between two `drain`s go at once."""


class HeldLine:
    """What a server sends about one request, or about none."""

    def __init__(
        self,
        is_due: Callable[[bytes], bool],
        hold: Callable[[bytes], Awaitable[bytes | None]],
        deliver: Callable[[bytes], object],
    ) -> None:
        """`is_due` says whether a message waits, `hold` waits and gives what is to be sent, if anything."""
        self._is_due = is_due
        self._hold = hold
        self._deliver = deliver
        self._queue: deque[bytes] = deque()
        self._going: asyncio.Task[None] | None = None

    @property
    def is_moving(self) -> bool:
        """Whether something waits."""
        return self._going is not None

    def put(self, message: bytes) -> None:
        """Deliver one message, or let it wait."""
        is_due = self._going is not None or self._is_due(message)
        if not is_due or len(self._queue) >= MOST_QUEUED:
            self._deliver(message)
        else:
            self._queue.append(message)
            if self._going is None:
                self._going = asyncio.create_task(self._go())

    async def all_gone(self) -> None:
        """Wait until nothing is held any more."""
        while self._going is not None:
            await asyncio.wait({self._going})

    def close(self) -> None:
        """Nobody waits for what is held."""
        self._queue.clear()
        if self._going is not None:
            self._going.cancel()

    async def _go(self) -> None:
        try:
            while self._queue:
                message = self._queue.popleft()
                kept = await self._hold(message) if self._is_due(message) else message
                if kept is not None:
                    self._deliver(kept)
        finally:
            self._going = None


class HeldOutlet:
    """Implements `Outlet` over that of a transport, for one request."""

    def __init__(self, outlet: Outlet, line: HeldLine) -> None:
        """`line` ends at the outlet."""
        self._outlet = outlet
        self._line = line

    @property
    def may_send(self) -> bool:
        """Whether messages reach the peer at all."""
        return self._outlet.may_send

    @property
    def must_drain(self) -> bool:
        """Whether to `drain` before the next message."""
        return self._line.is_moving or self._outlet.must_drain

    def send(self, message: bytes) -> None:
        """Queue one message, or let it wait."""
        if self._outlet.may_send:
            self._line.put(message)

    async def drain(self) -> None:
        """Wait for what is held, and until the peer has taken enough."""
        await self._line.all_gone()
        await self._outlet.drain()

    async def reserve(self, size: int) -> None:
        """Wait until an answer of so many bytes may be held. Raises: AnswerRefused."""
        await self._outlet.reserve(size)

    def keep_alive(self) -> None:
        """Show life on the connection."""
        self._outlet.keep_alive()

    async def close_stream(self, retry_ms: int) -> bool:
        """Close the connection of a stream that its client can resume."""
        await self._line.all_gone()
        return await self._outlet.close_stream(retry_ms)

    async def cut_off(self, answer: bytes) -> bool:
        """Write half of an answer and break the connection."""
        return await self._outlet.cut_off(answer)
